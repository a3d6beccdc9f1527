#include "scenarios/text_position.h"

#include <fmt/format.h>

#include <algorithm>

namespace flopcast {
namespace {

constexpr std::string_view kBlank = " \t\r\n";
constexpr std::string_view kStructure = "{}[],:";

std::size_t skip_comment(std::string_view text, std::size_t offset) {
  const bool block = text[offset + 1] == '*';
  const std::string_view closing = block ? "*/" : "\n";
  const auto end = text.find(closing, offset + 2);
  return end == std::string_view::npos ? text.size() : end + closing.size();
}

bool starts_comment(std::string_view text, std::size_t offset) {
  const auto start = text.substr(offset, 2);
  return start == "//" || start == "/*";
}

std::size_t skip_blanks(std::string_view text, std::size_t offset) {
  while (offset < text.size()) {
    if (kBlank.find(text[offset]) != std::string_view::npos) {
      ++offset;
    } else if (starts_comment(text, offset)) {
      offset = skip_comment(text, offset);
    } else {
      break;
    }
  }
  return offset;
}

/// A string ends at its closing quote, or where the line does.
std::size_t end_of_string(std::string_view text, std::size_t offset) {
  for (++offset; offset < text.size(); ++offset) {
    if (text[offset] == '"') return offset + 1;
    if (text[offset] == '\n') return offset;
    if (text[offset] == '\\' && offset + 1 < text.size()) ++offset;
  }
  return text.size();
}

bool opens(const Token& token) { return token.kind == '{' || token.kind == '['; }
bool closes(const Token& token) { return token.kind == '}' || token.kind == ']'; }

/// The token after the value that starts with `first`.
Token after_value(std::string_view text, Token first) {
  int depth = 0;
  for (Token token = first; token.kind != 0; token = next_token(text, token.end)) {
    if (opens(token)) ++depth;
    if (closes(token)) --depth;
    if (depth <= 0) return next_token(text, token.end);
  }
  return {0, text.size(), text.size()};
}

}  // namespace

Token next_token(std::string_view text, std::size_t offset) {
  const std::size_t begin = skip_blanks(text, offset);
  if (begin >= text.size()) return {0, text.size(), text.size()};
  const char first = text[begin];
  if (kStructure.find(first) != std::string_view::npos) return {first, begin, begin + 1};
  if (first == '"') return {'"', begin, end_of_string(text, begin)};
  std::size_t end = begin + 1;
  while (end < text.size() && kBlank.find(text[end]) == std::string_view::npos &&
         kStructure.find(text[end]) == std::string_view::npos && text[end] != '"' &&
         !starts_comment(text, end)) {
    ++end;
  }
  return {'v', begin, end};
}

TokenPair tokens_around(std::string_view text, std::size_t offset) {
  TokenPair pair;
  pair.token = next_token(text, 0);
  while (pair.token.kind != 0 && pair.token.end <= offset) {
    pair.before = pair.token;
    pair.token = next_token(text, pair.token.end);
  }
  return pair;
}

ValuePlace place_of(std::string_view text, std::span<const std::size_t> steps) {
  Token token = next_token(text, 0);
  ValuePlace place{token.begin, token.begin};
  for (const std::size_t step : steps) {
    const bool object = token.kind == '{';
    token = next_token(text, token.end);
    for (std::size_t member = 0;; ++member) {
      place.key = token.begin;
      if (object) {
        token = next_token(text, token.end);  // the colon
        token = next_token(text, token.end);
      }
      place.value = token.begin;
      if (member == step || token.kind == 0) break;
      token = after_value(text, token);
      if (token.kind != ',') return {text.size(), text.size()};
      token = next_token(text, token.end);
    }
  }
  return place;
}

std::size_t place_of_depth(std::string_view text, std::size_t limit) {
  std::size_t depth = 0;
  for (Token token = next_token(text, 0); token.kind != 0; token = next_token(text, token.end)) {
    if (opens(token) && ++depth > limit) return token.begin;
    if (closes(token) && depth > 0) --depth;
  }
  return text.size();
}

std::string line_and_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto line_start = before.rfind('\n');
  const std::string_view in_line =
      line_start == std::string_view::npos ? before : before.substr(line_start + 1);
  // UTF-8: bytes 10xxxxxx continue a character.
  const auto column = 1 + std::count_if(in_line.begin(), in_line.end(), [](char c) {
                        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
                      });
  return fmt::format("{}:{}", line, column);
}

}  // namespace flopcast
