#include "verify_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "load_picture.h"
#include "terminal.h"
#include "text_table.h"

namespace fusedmoe::cli {
namespace {

constexpr std::size_t kMaxListed = 20;  // names; JSON has them all
constexpr int kIndent = 9;

std::string line(const std::string& label, const std::string& text) {
  return fmt::format("  {:<{}}{}\n", label, kIndent, text);
}

std::string check_words(const Check& check) {
  const std::string note = check.note.empty() ? "" : fmt::format(" ({})", check.note);
  return fmt::format("{:<14}{:.1e} {} {:.0e}, {} rows{}", check.name, check.error,
                     check.is_ok() ? "<=" : "EXCEEDS", check.tolerance, check.rows, note);
}

std::string name_lines(const std::string& label, const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMaxListed; ++i) {
    text += line(i == 0 ? label : "", names[i]);
  }
  if (names.size() > kMaxListed) {
    text += line("", fmt::format("... and {} more (--json lists all)", names.size() - kMaxListed));
  }
  return text;
}

std::string memory_words(const LoadMemory& memory) {
  return fmt::format("peak {} while loading, result {}, allowed {}{}",
                     format_bytes(static_cast<double>(memory.peak_bytes)),
                     format_bytes(static_cast<double>(memory.result_bytes)),
                     format_bytes(static_cast<double>(memory.allowed_bytes)),
                     memory.is_ok() ? "" : ": EXCEEDED");
}

std::string speed_words(const Speed& speed) {
  const Figures& f = speed.figures;
  return fmt::format(
      "{:.3f} ms, {} tokens/s, {:.2f} GB/s ({:.0f} % of the memory floor), {:.1f} GFLOP/s; "
      "{:.0f} % of the floor, which is {}",
      speed.seconds * 1e3, format_count(speed.tokens_per_second), f.bytes_per_second / 1e9,
      f.percent_of_memory_floor, f.flops_per_second / 1e9, f.percent_of_floor, f.bound);
}

std::string shown_lines(const LayerVerdict& verdict) {
  std::string text = line("kernel", kernel_words(verdict.plan));
  if (verdict.speed) text += line("speed", speed_words(*verdict.speed));
  const int columns = stdout_columns() - kIndent - 2;
  std::string label = "load";
  for (const std::string& row :
       load_picture(verdict.tokens_per_expert, columns, stdout_takes_utf8())) {
    text += line(label, row);
    label.clear();
  }
  text += line(label, load_summary(verdict.tokens_per_expert));
  return text;
}

// JSON has no infinity; null says "no number".
nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json speed_json(const Speed& speed) {
  return {{"milliseconds", speed.seconds * 1e3},
          {"tokens_per_second", speed.tokens_per_second},
          {"gb_per_second", speed.figures.bytes_per_second / 1e9},
          {"gflop_per_second", speed.figures.flops_per_second / 1e9},
          {"percent_of_memory_floor", speed.figures.percent_of_memory_floor},
          {"percent_of_floor", speed.figures.percent_of_floor},
          {"floor", speed.figures.bound}};
}

}  // namespace

std::string kernel_words(const PlanReport& plan) {
  std::string words = fmt::format("{} ({})", plan.kernel, plan.arithmetic);
  std::string refused;
  for (const KernelChoice& row : plan.considered) {
    if (row.chosen) break;
    if (!row.reason.empty()) refused += fmt::format("; {}: {}", row.name, row.reason);
  }
  return words + ": best of the table that runs here" + refused;
}

std::string verdict_text(const LayerVerdict& verdict, bool show) {
  std::string text = fmt::format("layer {}: {}  ({} cells from {}, {} missing, {} unused)\n",
                                 verdict.layer, verdict.is_ok() ? "ok" : "FAILED", verdict.cells,
                                 format_bytes(static_cast<double>(verdict.bytes_read)),
                                 verdict.missing.size(), verdict.unused.size());
  for (const Check& check : verdict.checks) text += line("error", check_words(check));
  if (verdict.memory.allowed_bytes > 0) text += line("memory", memory_words(verdict.memory));
  text += name_lines("missing", verdict.missing);
  text += name_lines("unused", verdict.unused);
  text += name_lines("warning", verdict.warnings);
  text += name_lines("reason", verdict.errors);
  if (show && !verdict.tokens_per_expert.empty()) text += shown_lines(verdict) + "\n";
  return text;
}

nlohmann::ordered_json verdict_json(const LayerVerdict& verdict) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const Check& check : verdict.checks) {
    checks.push_back({{"name", check.name},
                      {"error", number(check.error)},
                      {"tolerance", check.tolerance},
                      {"rows", check.rows},
                      {"ok", check.is_ok()},
                      {"note", check.note}});
  }
  const std::optional<double> error = verdict.max_row_error();
  nlohmann::ordered_json json = {
      {"layer", verdict.layer},
      {"ok", verdict.is_ok()},
      {"max_row_error", error ? number(*error) : nlohmann::ordered_json(nullptr)},
      {"missing", verdict.missing},
      {"unused", verdict.unused},
      {"warnings", verdict.warnings},
      {"errors", verdict.errors},
      {"checks", checks},
      {"cells", verdict.cells},
      {"bytes_read", verdict.bytes_read},
      {"peak_load_bytes", verdict.memory.peak_bytes},
      {"result_bytes", verdict.memory.result_bytes},
      {"allowed_load_bytes", verdict.memory.allowed_bytes},
      {"kernel", verdict.plan.kernel},
      {"arithmetic", verdict.plan.arithmetic},
      {"tokens_per_expert", verdict.tokens_per_expert}};
  if (verdict.speed) json["speed"] = speed_json(*verdict.speed);
  return json;
}

}  // namespace fusedmoe::cli
