// Whatever bytes a file has, the reader answers with a scenario or an InputError.

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/scenario_parts.h"
#include "sim/errors.h"

using namespace flopcast;

namespace {

constexpr std::uint64_t kSeed = 20261129;
constexpr int kMutations = 3000;

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }

 private:
  std::uint64_t state_;
};

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

/// Bytes, numbers and words that are likely to hurt.
std::string mutated(std::string text, Random& random) {
  constexpr std::string_view kPieces[] = {
      "-1",   "0",    "1e308", "9223372036854775807", "{}", "[]", "null",
      "true", "\"\"", "0.5",   "\"1e400 GB\"",        "//", ","};
  const std::size_t changes = 1 + random.below(3);
  for (std::size_t i = 0; i < changes && !text.empty(); ++i) {
    const std::size_t at = random.below(text.size());
    switch (random.below(5)) {
      case 0: text[at] = static_cast<char>(random.below(256)); break;
      case 1: text.erase(at, 1 + random.below(8)); break;
      case 2: text.resize(at); break;
      case 3: text.insert(at, kPieces[random.below(std::size(kPieces))]); break;
      case 4: {
        // A number or word by another.
        const std::size_t begin = text.find_first_of("0123456789", at);
        if (begin == std::string::npos) break;
        const std::size_t end = text.find_first_not_of("0123456789.", begin);
        text.replace(begin, end - begin, kPieces[random.below(std::size(kPieces))]);
        break;
      }
    }
  }
  return text;
}

}  // namespace

TEST_CASE("mutated scenarios are read or refused, never worse") {
  const std::filesystem::path source(FLOPCAST_SOURCE_DIR);
  ShippedData data(
      {.catalogue = source / "scenarios/catalogue", .profiles = source / "calibration/profiles"});
  const std::vector<std::string> originals{
      text_of(source / "scenarios/examples/llama3.1-405b-16k-h100.json"),
      text_of(source / "scenarios/examples/what-if-inline.json"),
      text_of(std::filesystem::path(FLOPCAST_TEST_DATA) / "every_key.json")};
  CAPTURE(kSeed);
  Random random(kSeed);
  int read = 0;
  int refused = 0;
  for (int i = 0; i < kMutations; ++i) {
    const std::string text = mutated(originals[static_cast<std::size_t>(i) % 3], random);
    CAPTURE(i, text);
    try {
      read_scenario_document(Document::parse(text, "mutated.json"), data);
      ++read;
    } catch (const InputError& error) {
      ++refused;
      REQUIRE(std::string_view(error.what()).size() > 0);
    }
  }
  // Both kinds must occur, or the mutations miss their aim.
  CHECK(read > kMutations / 100);
  CHECK(refused > kMutations / 10);
}
