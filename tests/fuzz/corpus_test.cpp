// The fuzz targets without a fuzzer: the committed corpus, and mutations of it from a fixed seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz/fuzz_targets.h"

namespace fusedmoe::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr int kNumMutations = 4000;  // a tenth of a second a target without sanitizers
constexpr std::size_t kMaxInputBytes = 8192;

struct Target {
  const char* name;  // of the folder under corpus/ too
  void (*run)(std::span<const std::byte>);
};

std::vector<std::string> read_corpus(const std::string& target) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(FUSEDMOE_FUZZ_CORPUS) / target)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());  // the mutations depend on the order
  std::vector<std::string> corpus;
  for (const fs::path& path : paths) {
    std::ifstream in(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return corpus;
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  std::string next() {
    std::string input = pick(corpus_);
    for (std::size_t step = 0; step <= below(4); ++step) mutate(input);
    input.resize(std::min(input.size(), kMaxInputBytes));
    return input;
  }

 private:
  // The library's distributions differ between implementations, the engine does not.
  std::size_t below(std::size_t bound) { return engine_() % bound; }
  template <class Container>
  const typename Container::value_type& pick(const Container& from) {
    return from[below(from.size())];
  }

  void mutate(std::string& input) {
    static const std::array<std::string, 18> kTokens = {"{",
                                                        "}",
                                                        "[",
                                                        "]",
                                                        ",",
                                                        "\"",
                                                        ":",
                                                        "0",
                                                        "-0",
                                                        "1e3",
                                                        "9223372036854775807",
                                                        "18446744073709551615",
                                                        "null",
                                                        "true",
                                                        "NaN",
                                                        "-Infinity",
                                                        std::string(1, '\0'),
                                                        "\xFF"};
    if (input.empty()) input = pick(kTokens);
    const std::size_t at = below(input.size());
    const std::size_t length = 1 + below(std::min<std::size_t>(16, input.size() - at));
    switch (below(6)) {
      case 0:
        input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        input.erase(at, length);
        break;
      case 2:
        input.insert(at, input.substr(at, length));
        break;
      case 3:
        input.insert(at, pick(kTokens));
        break;
      case 4:
        input.replace(at, length, pick(kTokens));
        break;
      case 5: {
        const std::string& other = pick(corpus_);
        input = input.substr(0, at) + other.substr(std::min(at, other.size()));
        break;
      }
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937 engine_{20240229};
};

std::string as_hex(const std::string& input) {
  std::string text;
  for (const char c : input.substr(0, 400)) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15U];
  }
  return text;
}

class FuzzCorpus : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzCorpus, EveryInputIsAnsweredByAResultOrAnError) {
  const std::vector<std::string> corpus = read_corpus(GetParam().name);
  ASSERT_GE(corpus.size(), 4U);
  for (const std::string& input : corpus) {
    EXPECT_NO_THROW(GetParam().run(std::as_bytes(std::span(input)))) << as_hex(input);
  }
  Mutator mutator(corpus);
  for (int i = 0; i < kNumMutations; ++i) {
    const std::string input = mutator.next();
    ASSERT_NO_THROW(GetParam().run(std::as_bytes(std::span(input)))) << as_hex(input);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzCorpus,
                         ::testing::Values(Target{"safetensors", fuzz_safetensors},
                                           Target{"index", fuzz_index},
                                           Target{"config", fuzz_config}),
                         [](const ::testing::TestParamInfo<Target>& test) {
                           return test.param.name;
                         });

}  // namespace
}  // namespace fusedmoe::fuzz
