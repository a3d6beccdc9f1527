// Lines of a log, freed of what launchers and NCCL itself print into it.

#include <algorithm>

#include "scenarios/import_nccl_tests_parts.h"

namespace flopcast {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view without_blanks(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view{} : text.substr(begin);
}

// "[1,0]<stdout>:" and "[1,0]<stdout> " of mpirun, "12: " of srun --label.
std::string_view without_tag(std::string_view line) {
  std::string_view rest = without_blanks(line);
  if (rest.starts_with('[')) {
    const auto close = rest.find(']');
    if (close != std::string_view::npos && rest.substr(close + 1).starts_with("<std")) {
      const auto end = rest.find('>', close);
      if (end != std::string_view::npos) {
        rest.remove_prefix(end + 1);
        if (rest.starts_with(':')) {
          rest.remove_prefix(1);
        }
        return without_blanks(rest);
      }
    }
  }
  std::size_t digits = 0;
  while (digits < rest.size() && is_digit(rest[digits])) {
    ++digits;
  }
  if (digits > 0 && digits < 7 && rest.substr(digits).starts_with(": ")) {
    return without_blanks(rest.substr(digits + 1));
  }
  return rest;
}

// "node01:1234:5678 [0] NCCL INFO ..." may be glued to the end of a half-printed row.
std::string_view without_debug(std::string_view line) {
  const std::size_t mark =
      std::min({line.find(" NCCL INFO"), line.find(" NCCL WARN"), line.find(" NCCL TRACE")});
  if (mark == std::string_view::npos) {
    return line;
  }
  std::string_view head = line.substr(0, mark);
  const auto bracket = head.rfind(" [");  // of the device
  if (bracket != std::string_view::npos) {
    head = head.substr(0, bracket);
  }
  const auto host = head.find_last_of(" \t");
  if (host == std::string_view::npos) {
    return {};
  }
  // A root of -1 or 0 printed just before stays.
  std::size_t end = host + 1;
  if (end < head.size() && head[end] == '-') {
    ++end;
  }
  while (end < head.size() && is_digit(head[end])) {
    ++end;
  }
  return head.substr(0, end);
}

}  // namespace

std::string_view without_other_output(std::string_view line) {
  return without_blanks(without_debug(without_tag(line)));
}

std::vector<TextLine> text_lines(std::string_view text) {
  std::vector<TextLine> lines;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    TextLine line{.number = ++number, .text = {}};
    for (std::size_t i = 0; i < end; ++i) {
      if (text[i] == '\x1b' && i + 1 < end && text[i + 1] == '[') {  // a colour: ESC [ ... letter
        i += 2;
        while (i < end && (text[i] < '@' || text[i] > '~')) {
          ++i;
        }
      } else if (text[i] != '\r') {
        line.text += text[i];
      }
    }
    lines.push_back(std::move(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace flopcast
