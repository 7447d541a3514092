// Which number format a checkpoint says it is in.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "fusedmoe/quant.h"

namespace fusedmoe {

/// Text of a side file of the checkpoint's folder, empty when there is none.
using SideFileReader = std::function<std::string(std::string_view name)>;

/// Looks for a description of the format and reads it, in this order: a modelslim side file;
/// `quantization_config` of config.json (of its `text_config` for multimodal models);
/// `compression_config`; the side files of ModelOpt, GPTQ and AWQ.
///
/// @param config    config.json, a JSON object.
/// @param warnings  receives keys of the description that nothing here reads.
/// @return the scheme, or "none" when nothing is announced.
/// @throws Error(kUnsupported) for a format that this version does not run, by its name;
///         Error(kCorruptData) for a description that contradicts itself.
QuantAnnouncement announce_quantization(const nlohmann::json& config,
                                        const SideFileReader& side_file,
                                        std::vector<std::string>& warnings);

/// The announcement of one ecosystem without any description: for files whose tensors say it.
QuantAnnouncement default_announcement(std::string_view ecosystem);

/// True when an entry of `ignored_modules` names `module` or something that holds it: an exact
/// name, a prefix of whole components, or either with `*` for any run of characters. A leading
/// "model." or "language_model." counts on neither side, as producers write names with and without
/// it.
/// @throws Error(kUnsupported) for an entry that is a regular expression.
bool is_ignored(const QuantAnnouncement& announcement, std::string_view module);

}  // namespace fusedmoe
