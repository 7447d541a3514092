// Which files of a folder make the checkpoint.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/index.h"

namespace fusedmoe {

struct CheckpointFiles {
  std::vector<std::string> names;  ///< to be opened, sorted, relative to the folder
  std::optional<SafetensorsIndex> index;
  std::vector<std::string> ignored;  ///< other *.safetensors of the folder, sorted
};

/// The files that the index names; without an index model.safetensors; without that every
/// *.safetensors, except that consolidated*.safetensors (a second copy in another naming) is taken
/// only when there is nothing else.
///
/// A listed file may be a symbolic link that leaves the folder: the Hugging Face cache is made of
/// such links (snapshots/<revision>/x -> ../../blobs/<hash>). What an index may not do is to name
/// anything but a plain file name, so it cannot reach a file that the folder's owner has not put
/// there.
/// @throws Error(kNotFound) naming a missing shard and how many tensors it should hold;
///         Error(kUnsupported) when there are only pickle or GGUF files; errors of parse_index.
CheckpointFiles find_checkpoint_files(const std::filesystem::path& folder);

/// @throws Error(kUnsupported) when `file_name` ends like a pickle (loading one runs code that it
///         contains) or like a GGUF file.
void refuse_other_formats(const std::filesystem::path& file_name);

}  // namespace fusedmoe
