#include "tools/text_table.h"

#include <catch2/catch.hpp>

using namespace flopcast;

namespace {

TextTable sample() {
  return {.title = "Sizes",
          .columns = {{"name", Align::left}, {"GB"}, {"", Align::left}},
          .rows = {{{"a", "10.00", ""}}, {{"longer", "5.00", "fullest"}, Tone::good}}};
}

}  // namespace

TEST_CASE("columns are as wide as their widest cell and lines end without spaces") {
  CHECK(aligned_text(sample(), false) ==
        "Sizes\n"
        "name       GB\n"
        "a       10.00\n"
        "longer   5.00  fullest\n");
}

TEST_CASE("colour wraps whole lines and only where it is wanted") {
  CHECK(painted("x", Tone::bad, false) == "x");
  CHECK(painted("x", Tone::plain, true) == "x");
  CHECK(painted("x", Tone::bad, true) == "\x1b[31mx\x1b[0m");
  const std::string text = aligned_text(sample(), true);
  CHECK(text.find("\x1b[32mlonger   5.00  fullest\x1b[0m\n") != std::string::npos);
}

TEST_CASE("Markdown tables state the alignment and escape markup") {
  CHECK(markdown_text(sample()) ==
        "### Sizes\n\n"
        "| name | GB |  |\n"
        "|---|---:|---|\n"
        "| a | 10.00 |  |\n"
        "| longer | 5.00 | fullest |\n");
  CHECK(markdown_escaped("a|b\n<c>`*\\") == "a\\|b \\<c>\\`\\*\\\\");
}
