#include "scenarios/json_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "scenarios/text_position.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

using Json = nlohmann::json;

/// Steps from the root to a value that is being read.
using Steps = std::vector<std::size_t>;

/// Builds the tree while nlohmann/json reads the text. The first mistake ends the reading.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  enum class Mistake : std::uint8_t { none, syntax, duplicate_key, too_deep };

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add({.kind = JsonKind::boolean, .boolean = value}); }
  bool number_integer(number_integer_t value) override {
    return add({.kind = JsonKind::integer,
                .integer = value,
                .number = static_cast<double>(value),
                .text = std::to_string(value)});
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      return number_integer(static_cast<number_integer_t>(value));
    }
    return number_float(static_cast<double>(value), std::to_string(value));
  }
  bool number_float(number_float_t value, const string_t& written) override {
    return add({.kind = JsonKind::number, .number = value, .text = written});
  }
  bool string(string_t& value) override {
    return add({.kind = JsonKind::text, .text = std::move(value)});
  }
  bool binary(binary_t&) override { return false; }  // JSON text has none

  bool start_object(std::size_t) override { return open({.kind = JsonKind::object}); }
  bool start_array(std::size_t) override { return open({.kind = JsonKind::array}); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    Level& level = levels_.back();
    if (!level.names.insert(name).second) {
      mistake_ = Mistake::duplicate_key;
      level.value.keys.push_back(std::move(name));
      return false;
    }
    level.value.keys.push_back(std::move(name));
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const Json::exception& error) override {
    mistake_ = Mistake::syntax;
    position_ = position;
    message_ = error.what();
    return false;
  }

  Mistake mistake() const { return mistake_; }
  std::size_t position() const { return position_; }
  const std::string& message() const { return message_; }
  JsonValue take_root() { return std::move(root_); }
  /// The repeated key and its first place among the members.
  const std::string& repeated_key() const { return levels_.back().value.keys.back(); }
  Steps steps_to(std::size_t last) const {
    Steps steps;
    for (std::size_t i = 0; i + 1 < levels_.size(); ++i) {
      steps.push_back(levels_[i].value.values.size());
    }
    steps.push_back(last);
    return steps;
  }
  std::size_t first_place() const {
    const auto& keys = levels_.back().value.keys;
    return static_cast<std::size_t>(std::find(keys.begin(), keys.end(), keys.back()) -
                                    keys.begin());
  }
  std::size_t second_place() const { return levels_.back().value.keys.size() - 1; }

 private:
  /// An object or array that is still open.
  struct Level {
    JsonValue value;
    std::set<std::string> names;
  };

  bool add(JsonValue value) {
    if (levels_.empty()) {
      root_ = std::move(value);
    } else {
      levels_.back().value.values.push_back(std::move(value));
    }
    return true;
  }
  bool open(JsonValue value) {
    if (levels_.size() == kDeepestNesting) {
      mistake_ = Mistake::too_deep;
      return false;
    }
    levels_.push_back({std::move(value), {}});
    return true;
  }
  bool close() {
    JsonValue value = std::move(levels_.back().value);
    levels_.pop_back();
    return add(std::move(value));
  }

  std::vector<Level> levels_;
  JsonValue root_;
  Mistake mistake_ = Mistake::none;
  std::size_t position_ = 0;
  std::string message_;
};

/// What was met, in one line and printable.
std::string shown_token(std::string_view text, const Token& token) {
  constexpr std::size_t kLongest = 40;
  if (token.kind == 0) return "the end of the file";
  const std::string_view piece = text.substr(token.begin, token.end - token.begin);
  std::string shown;
  for (const char c : piece.substr(0, kLongest)) {
    const bool printable = c >= 0x20 && c < 0x7F;
    shown +=
        printable ? std::string(1, c) : fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
  }
  if (piece.size() > kLongest) shown += "...";
  return token.kind == '"' || shown.starts_with('\'') ? shown : fmt::format("'{}'", shown);
}

/// Between two marks; nothing where they are not there.
std::optional<std::string_view> between(std::string_view text, std::string_view from,
                                        std::string_view to) {
  const auto begin = text.find(from);
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin + from.size());
  return text.substr(0, text.find(to));
}

/// What could have stood there, in plain words, from the parser's message.
std::string expected_instead(std::string_view message) {
  const auto mark = message.rfind("; expected ");
  if (message.find("while parsing object key") != std::string_view::npos) {
    return "a key in double quotes";
  }
  if (message.find("while parsing object separator") != std::string_view::npos) return "':'";
  if (message.find("while parsing object") != std::string_view::npos) return "',' or '}'";
  if (message.find("while parsing array") != std::string_view::npos) return "',' or ']'";
  if (message.find("expected end of input") != std::string_view::npos) {
    return "the end of the file";
  }
  if (message.find("while parsing value") != std::string_view::npos) return "a value";
  return mark == std::string_view::npos ? "JSON" : std::string(message.substr(mark + 11));
}

bool is_trailing_comma(const TokenPair& pair) {
  return pair.before.kind == ',' && (pair.token.kind == '}' || pair.token.kind == ']');
}

std::string literal_problem(std::string_view text, const Token& token) {
  constexpr std::string_view kNotNumbers[] = {"NaN", "nan", "Infinity", "-Infinity", "inf", "-inf"};
  const std::string_view piece = text.substr(token.begin, token.end - token.begin);
  if (std::find(std::begin(kNotNumbers), std::end(kNotNumbers), piece) != std::end(kNotNumbers)) {
    return fmt::format("{} is not a number that JSON knows", shown_token(text, token));
  }
  if (token.kind == 'v') {
    return fmt::format("{} is not a JSON value; text stands in double quotes",
                       shown_token(text, token));
  }
  return fmt::format("expected a value, found {}", shown_token(text, token));
}

std::string syntax_problem(std::string_view text, const TokenPair& pair, std::string_view message) {
  const Token& token = pair.token;
  if (is_trailing_comma(pair)) {
    return fmt::format("a comma before '{}'; JSON allows none after the last element", token.kind);
  }
  if (message.find("number overflow") != std::string_view::npos) {
    return fmt::format("{} is too large for a number", shown_token(text, token));
  }
  if (const auto problem = between(message, "invalid string: ", "; last read")) {
    return fmt::format("invalid text {}: {}", shown_token(text, token), *problem);
  }
  if (const auto problem = between(message, "invalid number; ", "; last read")) {
    return fmt::format("invalid number {}: {}", shown_token(text, token), *problem);
  }
  if (const auto problem = between(message, "invalid comment; ", "; last read")) {
    return fmt::format("invalid comment: {}", *problem);
  }
  if (message.find("invalid literal") != std::string_view::npos) {
    return literal_problem(text, token);
  }
  return fmt::format("expected {}, found {}", expected_instead(message), shown_token(text, token));
}

[[noreturn]] void fail_syntax(std::string_view text, std::string_view name,
                              const TreeBuilder& builder) {
  // The parser counts the bytes that it has read, the last of the bad token among them.
  const std::size_t offset = builder.position() > 0 ? builder.position() - 1 : 0;
  TokenPair pair = tokens_around(text, offset);
  // Of a broken word, number or string it has read one byte more.
  const bool breakable = pair.before.kind == 'v' || pair.before.kind == '"';
  const bool one_more = breakable && builder.message().find("invalid ") != std::string::npos &&
                        pair.token.begin >= offset && pair.before.end == offset;
  if (one_more && offset > 0) pair = tokens_around(text, offset - 1);
  // Of a trailing comma the comma is the mistake, not what follows.
  const std::size_t place = is_trailing_comma(pair) ? pair.before.begin : pair.token.begin;
  throw InputError(fmt::format("{}:{}: {}", name, line_and_column(text, place),
                               syntax_problem(text, pair, builder.message())));
}

[[noreturn]] void fail_duplicate(std::string_view text, std::string_view name,
                                 const TreeBuilder& builder) {
  const auto first = place_of(text, builder.steps_to(builder.first_place())).key;
  const auto second = place_of(text, builder.steps_to(builder.second_place())).key;
  throw InputError(fmt::format("{}:{}: duplicate key \"{}\"; first given at {}:{}", name,
                               line_and_column(text, second), builder.repeated_key(), name,
                               line_and_column(text, first)));
}

std::string escaped(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

JsonValue parse_json(std::string_view text, std::string_view name) {
  if (text.find('\0') != std::string_view::npos) {
    throw InputError(fmt::format("{}: a binary file, expected JSON text", name));
  }
  if (next_token(text, 0).kind == 0) {
    throw InputError(fmt::format("{}: an empty file, expected a JSON object", name));
  }
  TreeBuilder builder;
  constexpr bool kWholeText = true;
  constexpr bool kComments = true;
  Json::sax_parse(text.begin(), text.end(), &builder, Json::input_format_t::json, kWholeText,
                  kComments);
  switch (builder.mistake()) {
    case TreeBuilder::Mistake::none: break;
    case TreeBuilder::Mistake::syntax: fail_syntax(text, name, builder);
    case TreeBuilder::Mistake::duplicate_key: fail_duplicate(text, name, builder);
    case TreeBuilder::Mistake::too_deep:
      throw InputError(fmt::format("{}:{}: nested deeper than {} levels", name,
                                   line_and_column(text, place_of_depth(text, kDeepestNesting)),
                                   kDeepestNesting));
  }
  return builder.take_root();
}

void link(JsonValue& value) {
  value.asked.assign(value.keys.size(), false);
  value.missing.clear();
  for (std::size_t i = 0; i < value.values.size(); ++i) {
    value.values[i].parent = &value;
    value.values[i].ordinal = i;
    link(value.values[i]);
  }
}

std::vector<std::size_t> steps_to(const JsonValue& value) {
  std::vector<std::size_t> steps;
  for (const JsonValue* v = &value; v->parent != nullptr; v = v->parent) {
    steps.push_back(v->ordinal);
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

std::string pointer_to(const JsonValue& value) {
  if (value.parent == nullptr) return {};
  const std::string step = value.parent->kind == JsonKind::object
                               ? escaped(value.parent->keys[value.ordinal])
                               : std::to_string(value.ordinal);
  return pointer_to(*value.parent) + "/" + step;
}

}  // namespace flopcast
