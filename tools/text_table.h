#pragma once

// A table of text, laid out for a terminal or as Markdown. The content is made once
// (tools/report_tables.h) and the same for both.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flopcast {

enum class Align : std::uint8_t { left, right };

/// What a line wants to say by its colour, where there is colour.
enum class Tone : std::uint8_t { plain, heading, good, bad, faint };

struct Column {
  std::string heading;
  Align align = Align::right;
};

struct Row {
  std::vector<std::string> cells;
  Tone tone = Tone::plain;
};

struct TextTable {
  std::string title;
  std::vector<Column> columns;
  std::vector<Row> rows;
};

/// "12.5 %"
std::string percent_text(double fraction);

/// `text` in the colour of its tone, or as it is.
std::string painted(std::string_view text, Tone tone, bool colour);

/// Title, headings and rows in columns of the least width, two spaces apart.
std::string aligned_text(const TextTable& table, bool colour);

/// A GitHub table under a heading of the third level.
std::string markdown_text(const TextTable& table);
/// Text that Markdown must not read as markup.
std::string markdown_escaped(std::string_view text);

}  // namespace flopcast
