// Checkpoint files written byte by byte, and the facts that an error must state.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "fusedmoe/error.h"

namespace fusedmoe::testing {

/// A folder that lives as long as this object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "fusedmoe-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary).write(bytes.data(), std::ssize(bytes));
    return path_ / name;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

 private:
  std::filesystem::path path_;
};

/// Length field, header, data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<char>((std::uint64_t{header.size()} >> (8 * i)) & 0xFFU);
  }
  return bytes.append(header).append(data);
}

/// Names the cases of a table test by their member `name`.
struct CaseName {
  template <class Case>
  std::string operator()(const ::testing::TestParamInfo<Case>& test) const {
    return test.param.name;
  }
};

/// Runs `action` and expects an Error of `code` whose text has every one of `facts`.
template <class Action>
void expect_error(ErrorCode code, const std::vector<std::string>& facts, Action action) {
  try {
    action();
    ADD_FAILURE() << "expected an error with: " << ::testing::PrintToString(facts);
  } catch (const Error& error) {
    EXPECT_EQ(error_code_name(error.code()), error_code_name(code)) << error.what();
    for (const std::string& fact : facts) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(fact));
    }
  }
}

}  // namespace fusedmoe::testing
