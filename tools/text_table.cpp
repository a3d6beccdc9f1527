#include "tools/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace flopcast {
namespace {

// SGR codes of ECMA-48.
std::string_view sgr_code(Tone tone) {
  switch (tone) {
    case Tone::plain: return "";
    case Tone::heading: return "1";
    case Tone::good: return "32";
    case Tone::bad: return "31";
    case Tone::faint: return "2";
  }
  return "";
}

std::vector<std::size_t> column_widths(const TextTable& table) {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    std::size_t width = table.columns[column].heading.size();
    for (const Row& row : table.rows) width = std::max(width, row.cells.at(column).size());
    widths.push_back(width);
  }
  return widths;
}

void append_cell(std::string& line, std::string_view cell, std::size_t width, Align align) {
  if (!line.empty()) line += "  ";
  line += align == Align::left ? fmt::format("{:<{}}", cell, width)
                               : fmt::format("{:>{}}", cell, width);
}

void trim_right(std::string& line) { line.erase(line.find_last_not_of(' ') + 1); }

}  // namespace

std::string percent_text(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string painted(std::string_view text, Tone tone, bool colour) {
  const std::string_view code = sgr_code(tone);
  if (!colour || code.empty() || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::string aligned_text(const TextTable& table, bool colour) {
  const auto widths = column_widths(table);
  std::string text = painted(table.title, Tone::heading, colour) + "\n";
  std::string line;
  for (std::size_t column = 0; column < widths.size(); ++column) {
    append_cell(line, table.columns[column].heading, widths[column], table.columns[column].align);
  }
  trim_right(line);
  text += painted(line, Tone::faint, colour) + "\n";
  for (const Row& row : table.rows) {
    line.clear();
    for (std::size_t column = 0; column < widths.size(); ++column) {
      append_cell(line, row.cells[column], widths[column], table.columns[column].align);
    }
    trim_right(line);
    text += painted(line, row.tone, colour) + "\n";
  }
  return text;
}

std::string markdown_escaped(std::string_view text) {
  constexpr std::string_view kMarkup = "\\|`*<[";
  std::string escaped;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      escaped += ' ';
      continue;
    }
    if (kMarkup.find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string markdown_text(const TextTable& table) {
  std::string text = fmt::format("### {}\n\n|", markdown_escaped(table.title));
  for (const Column& column : table.columns) {
    text += fmt::format(" {} |", markdown_escaped(column.heading));
  }
  text += "\n|";
  for (const Column& column : table.columns) text += column.align == Align::left ? "---|" : "---:|";
  text += "\n";
  for (const Row& row : table.rows) {
    text += "|";
    for (const std::string& cell : row.cells) text += fmt::format(" {} |", markdown_escaped(cell));
    text += "\n";
  }
  return text;
}

}  // namespace flopcast
