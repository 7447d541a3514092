#include "checkpoint/describe.h"
#include "fusedmoe/checkpoint.h"
#include "fusedmoe/error.h"

namespace fusedmoe {

ModelDescription describe_model(const Checkpoint& checkpoint, const DescribeOptions& options) {
  if (checkpoint.config_json().empty()) {
    throw Error(ErrorCode::kNotFound,
                "[checkpoint] config.json: expected the model's configuration, got none (" +
                    checkpoint.path().string() + "), open the folder that holds it");
  }
  return describe({.config_json = checkpoint.config_json(),
                   .config_file = (checkpoint.path() / "config.json").string(),
                   .side_file = [&](std::string_view name) { return checkpoint.side_file(name); },
                   .tensors = checkpoint.tensors()},
                  options);
}

}  // namespace fusedmoe
