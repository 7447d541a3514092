#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/describe.h"
#include "checkpoint/strict_json.h"
#include "fusedmoe/error.h"
#include "fuzz/fuzz_targets.h"

namespace fusedmoe::fuzz {
namespace {

// Names and shapes that the first entry of the corpus fits, so that a good part of the code after
// the JSON is reached.
std::vector<TensorInfo> mixtral_tensors() {
  std::vector<TensorInfo> tensors;
  const std::string block = "model.layers.0.block_sparse_moe";
  tensors.push_back({block + ".gate.weight", DType::kBF16, {4, 16}});
  for (int expert = 0; expert < 4; ++expert) {
    for (const auto& [part, shape] : {std::pair("w1", Shape{8, 16}), std::pair("w2", Shape{16, 8}),
                                      std::pair("w3", Shape{8, 16})}) {
      tensors.push_back(
          {fmt::format("{}.experts.{}.{}.weight", block, expert, part), DType::kBF16, shape});
    }
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  return tensors;
}

}  // namespace

void fuzz_config(std::span<const std::byte> input) {
  static const std::vector<TensorInfo> kTensors = mixtral_tensors();
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  try {
    parse_strict(text, kConfigJsonLimits, "fuzzed config");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruptData) throw std::logic_error("bad JSON is corrupt data");
  }
  CheckpointFacts facts;
  facts.config_json = text;
  facts.side_file = [](std::string_view) { return std::string(); };
  facts.tensors = kTensors;
  try {
    const ModelDescription model = describe(facts, {});
    if (model.layers.empty()) throw std::logic_error("a description without layers is an error");
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw std::logic_error(error.what());
  }
}

}  // namespace fusedmoe::fuzz
