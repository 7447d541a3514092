// config.json as typed settings, with errors that name key, value and file.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/families/family.h"

namespace fusedmoe {

/// Largest numbers that a config may name.
inline constexpr std::int64_t kMaxExperts = 65536;
inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 24;
inline constexpr std::int64_t kMaxLayers = 4096;

struct IntRange {
  std::int64_t min = 0;
  std::int64_t max = kMaxWidth;
};

/// Settings of a model. Multimodal configs keep those of the language model in a section of their
/// own; it is searched first, the root second.
class ModelConfig {
 public:
  /// @throws Error(kCorruptData) when the text is no strict JSON object. Bare NaN and Infinity, as
  /// Python writes them, are accepted.
  ModelConfig(std::string_view text, std::string file);
  ModelConfig(const ModelConfig&) = delete;
  ModelConfig& operator=(const ModelConfig&) = delete;

  const std::string& file() const noexcept { return file_; }
  const nlohmann::json& root() const noexcept { return root_; }
  /// model_type of the root, then of the language model's section; those that exist.
  std::vector<std::string> model_types() const;

  /// The value under a dotted path; nullptr when absent. An explicit null is a value here.
  const nlohmann::json* find(const std::string& path) const;
  /// The first of several paths whose value is not null, and its path.
  const nlohmann::json* find_any(const std::vector<std::string>& paths, std::string* found) const;

  /// An integer, of layer `layer` when the setting is a list (negative: lists are errors).
  /// Empty when the key is absent and has no fallback.
  std::optional<std::int64_t> integer(const IntKey& key, IntRange range, int layer = -1) const;
  /// The same; absence without a fallback is an error.
  std::int64_t required(const IntKey& key, IntRange range, int layer = -1) const;
  /// As `required`; several spellings in one file must agree.
  std::int64_t agreed(const IntKey& key, IntRange range, int layer = -1) const;
  double number(const NumberKey& key) const;
  bool flag(const FlagKey& key) const;
  std::string text(const TextKey& key) const;
  /// Layer numbers: an array of integers or comma-separated text. Empty optional: absent.
  std::optional<std::vector<std::int64_t>> int_list(const std::vector<std::string>& paths) const;
  std::optional<std::vector<std::string>> text_list(const std::vector<std::string>& paths) const;

  /// Raises kCorruptData in the house form about a setting.
  [[noreturn]] void fail(const std::string& path, const std::string& expected,
                         const std::string& got) const;

 private:
  nlohmann::json root_;
  std::string file_;
  std::vector<const nlohmann::json*> sections_;  // searched in order
};

/// A value as one short line for a message.
std::string brief(const nlohmann::json& value);

}  // namespace fusedmoe
