#include "scenarios/nearest.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace flopcast;

TEST_CASE("edits are counted by hand") {
  struct Row {
    std::string a;
    std::string b;
    double edits;
  };
  const auto row = GENERATE(values<Row>({{"", "", 0},
                                         {"tp", "tp", 0},
                                         {"", "abc", 3},
                                         {"kitten", "sitting", 3},  // the textbook pair
                                         {"bandwith", "bandwidth", 1},
                                         {"smx", "sxm", 1},       // neighbours swapped
                                         {"ca", "abc", 3},        // no edit inside a swap
                                         {"BF16", "bf16", 1}}));  // letter case counts half
  CAPTURE(row.a, row.b);
  CHECK(edit_distance(row.a, row.b) == row.edits);
  CHECK(edit_distance(row.b, row.a) == row.edits);
}

TEST_CASE("a name is suggested only if it is near") {
  const std::vector<std::string_view> known{"tp",       "pp",       "bandwidth",
                                            "dgx-h100", "dgx-a100", "llama3-70b"};
  CHECK(nearest("bandwith", known) == "bandwidth");
  CHECK(nearest("dgx-h10", known) == "dgx-h100");
  CHECK(nearest("lama3-70b", known) == "llama3-70b");
  CHECK(nearest("llama3", known) == "llama3-70b");  // its beginning
  CHECK(nearest("bandwidth_per_direction", known) == "bandwidth");
  CHECK_FALSE(nearest("oversubscription", known).has_value());
  CHECK_FALSE(nearest("", known).has_value());
  CHECK_FALSE(nearest("tp", {}).has_value());
  CHECK(did_you_mean("tpp", known) == "; did you mean \"tp\"?");
  CHECK(did_you_mean("zzz", known).empty());
}
