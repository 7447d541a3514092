// fusedmoe inspect: what a checkpoint holds, and what each rank of a grid would hold of it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "exit_codes.h"
#include "fusedmoe/error.h"
#include "inspect_report.h"
#include "options.h"
#include "terminal.h"
#include "text_table.h"

namespace fusedmoe::cli {
namespace {

struct Options {
  ModelOptions model;
  GridOptions grid;
  bool families = false;
  bool markdown = false;
  bool json = false;
};

nlohmann::ordered_json families_json(const std::vector<FamilySummary>& families) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const FamilySummary& row : families) {
    list.push_back({{"family", row.family},
                    {"model_types", row.model_types},
                    {"router", row.router},
                    {"expert_layout", row.expert_layout},
                    {"activation", row.activation},
                    {"shared_experts", row.shared_experts}});
  }
  return {{"families", list}};
}

int list_all_families(const Options& options) {
  const std::vector<FamilySummary> families = list_families();
  if (options.json) {
    print_json(families_json(families));
    return kSuccess;
  }
  TextTable table(
      {"family", "model types", "router", "expert layout", "activation", "shared experts"});
  for (const FamilySummary& row : families) {
    table.add_row({row.family, fmt::format("{}", fmt::join(row.model_types, ", ")), row.router,
                   row.expert_layout, row.activation, row.shared_experts});
  }
  print(options.markdown ? table.markdown() : table.plain());
  return kSuccess;
}

int inspect(const Options& options) {
  if (options.families) return list_all_families(options);
  if (options.model.dir.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "[cli] inspect: expected a checkpoint folder or --families, got neither, pass one");
  }
  const OpenModel model = open_model(options.model);
  if (options.json) {
    print_json(inspect_json(model, options.grid));
  } else {
    print(inspect_text(model, options.grid));
  }
  return kSuccess;
}

}  // namespace

Action declare_inspect(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  add_dir_argument(app, options->model);
  add_grid_options(app, options->grid);
  add_family_option(app, options->model);
  app.add_flag("--families", options->families, "List the families that are built in");
  app.add_flag("--markdown", options->markdown, "With --families: a Markdown table");
  add_json_flag(app, options->json);
  return [options] { return inspect(*options); };
}

}  // namespace fusedmoe::cli
