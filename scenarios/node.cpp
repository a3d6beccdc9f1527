#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "scenarios/document.h"
#include "scenarios/json_tree.h"
#include "scenarios/nearest.h"
#include "scenarios/text_position.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

constexpr std::size_t kLongestShown = 60;

/// Quoted, in one line, printable and not too long.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kLongestShown)) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    out += control ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  out += text.size() > kLongestShown ? "...\"" : "\"";
  return out;
}

std::vector<std::size_t> steps_in_text(const DocumentState& state, const JsonValue& value) {
  std::vector<std::size_t> steps = steps_to(value);
  steps.insert(steps.begin(), state.root_steps.begin(), state.root_steps.end());
  return steps;
}

/// Whether `pointer` is `ancestor` or lies below it.
bool is_within(std::string_view pointer, std::string_view ancestor) {
  return pointer.starts_with(ancestor) &&
         (pointer.size() == ancestor.size() || pointer[ancestor.size()] == '/');
}

/// The option that set the value, one above it or, for an object that only an option created, one
/// below it. The last one wins, as it did when it was applied.
const AppliedOverride* override_of(const DocumentState& state, const JsonValue& value) {
  const std::string pointer = pointer_to(value);
  const AppliedOverride* found = nullptr;
  for (const AppliedOverride& applied : state.overrides) {
    if (is_within(pointer, applied.pointer)) found = &applied;
  }
  return found;
}

const AppliedOverride* creator_of(const DocumentState& state, const JsonValue& value) {
  const std::string pointer = pointer_to(value);
  for (const AppliedOverride& applied : state.overrides) {
    if (is_within(applied.pointer, pointer)) return &applied;
  }
  return nullptr;
}

enum class Point : std::uint8_t { key, value };

/// Whether the text of the file has the value at all: an object that an option created has not.
bool is_in_text(const DocumentState& state, const JsonValue& value, std::size_t offset) {
  if (offset >= state.text.size()) return false;
  if (value.parent == nullptr || value.parent->kind != JsonKind::object) return true;
  // Members that options added come after those of the file.
  return state.text[offset] == '"';
}

std::string place_of_override(const DocumentState& state, const AppliedOverride& applied) {
  if (!applied.shown.empty()) return applied.shown;
  const std::size_t offset = place_of(state.text, applied.origin).value;
  return fmt::format("{}:{}", state.name, line_and_column(state.text, offset));
}

std::string place(const DocumentState& state, const JsonValue& value, Point point) {
  if (const AppliedOverride* applied = override_of(state, value)) {
    return place_of_override(state, *applied);
  }
  const ValuePlace found = place_of(state.text, steps_in_text(state, value));
  if (!is_in_text(state, value, found.key)) {
    if (const AppliedOverride* applied = creator_of(state, value)) {
      return place_of_override(state, *applied);
    }
  }
  const std::size_t offset = point == Point::key ? found.key : found.value;
  return fmt::format("{}:{}", state.name, line_and_column(state.text, offset));
}

std::string with_path(std::string place, const std::string& pointer) {
  return pointer.empty() ? place : fmt::format("{}: {}", place, pointer);
}

std::vector<std::string_view> known_keys(const JsonValue& object) {
  std::vector<std::string_view> known;
  for (std::size_t i = 0; i < object.keys.size(); ++i) {
    if (object.asked[i]) known.push_back(object.keys[i]);
  }
  known.insert(known.end(), object.missing.begin(), object.missing.end());
  return known;
}

bool was_asked(const JsonValue& object) {
  return !object.missing.empty() ||
         std::find(object.asked.begin(), object.asked.end(), true) != object.asked.end();
}

std::string unknown_key(const DocumentState& state, const JsonValue& object, std::size_t key) {
  const JsonValue& value = object.values[key];
  // The key itself is no suggestion for another; nor is one that the file has already.
  std::vector<std::string_view> candidates(object.missing.begin(), object.missing.end());
  std::string advice = did_you_mean(object.keys[key], candidates);
  if (advice.empty()) {
    const auto known = known_keys(object);
    advice = did_you_mean(object.keys[key], known);
    if (advice.empty() && known.size() <= 30) {
      auto sorted = known;
      std::sort(sorted.begin(), sorted.end());
      advice = fmt::format("; known here: {}", fmt::join(sorted, ", "));
    }
  }
  return fmt::format("{}: unknown key{}",
                     with_path(place(state, value, Point::key), pointer_to(value)), advice);
}

void append_unknown(const DocumentState& state, const JsonValue& value,
                    std::vector<std::string>& problems) {
  const bool object = value.kind == JsonKind::object;
  const bool checked = object && was_asked(value);
  for (std::size_t i = 0; i < value.values.size(); ++i) {
    if (value.values[i].removed) continue;
    if (checked && !value.asked[i]) {
      problems.push_back(unknown_key(state, value, i));
    } else {
      append_unknown(state, value.values[i], problems);
    }
  }
}

void remember_missing(const JsonValue& object, std::string_view key) {
  const auto found = std::find(object.missing.begin(), object.missing.end(), key);
  if (found == object.missing.end()) object.missing.emplace_back(key);
}

/// A key of the file that was probably meant for `key`, which is missing.
std::optional<std::size_t> misspelt(const JsonValue& object, std::string_view key) {
  const std::string_view wanted[] = {key};
  for (std::size_t i = 0; i < object.keys.size(); ++i) {
    if (!object.asked[i] && !object.values[i].removed && nearest(object.keys[i], wanted)) return i;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Node> Node::find(std::string_view key) const {
  if (value_->kind != JsonKind::object) expected("an object");
  const auto found = std::find(value_->keys.begin(), value_->keys.end(), key);
  const auto i = static_cast<std::size_t>(found - value_->keys.begin());
  if (found == value_->keys.end() || value_->values[i].removed) {
    remember_missing(*value_, key);
    return std::nullopt;
  }
  value_->asked[i] = true;
  return Node(*state_, value_->values[i]);
}

Node Node::at(std::string_view key) const {
  if (const auto node = find(key)) return *node;
  if (const auto i = misspelt(*value_, key)) throw InputError(unknown_key(*state_, *value_, *i));
  fail(fmt::format("the key \"{}\" is missing", key));
}

std::vector<Node::Member> Node::members() const {
  if (value_->kind != JsonKind::object) expected("an object");
  std::vector<Member> members;
  for (std::size_t i = 0; i < value_->keys.size(); ++i) {
    if (value_->values[i].removed) continue;
    value_->asked[i] = true;
    members.push_back({value_->keys[i], Node(*state_, value_->values[i])});
  }
  return members;
}

std::vector<Node> Node::items() const {
  if (value_->kind != JsonKind::array) expected("a list");
  std::vector<Node> items;
  for (const JsonValue& value : value_->values) items.emplace_back(*state_, value);
  return items;
}

std::string Node::text() const {
  if (value_->kind != JsonKind::text) expected("text in double quotes");
  return value_->text;
}

bool Node::boolean() const {
  if (value_->kind != JsonKind::boolean) expected("true or false");
  return value_->boolean;
}

std::int64_t Node::integer(std::int64_t min, std::int64_t max) const {
  // 1e6 is a whole number too, as long as a double holds it exactly.
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const bool whole = value_->kind == JsonKind::integer ||
                     (value_->kind == JsonKind::number && std::abs(value_->number) <= kExact &&
                      std::trunc(value_->number) == value_->number);
  if (!whole) expected("a whole number");
  const std::int64_t integer = value_->kind == JsonKind::integer
                                   ? value_->integer
                                   : static_cast<std::int64_t>(value_->number);
  if (integer < min) expected(fmt::format("a whole number of at least {}", min));
  if (integer > max) expected(fmt::format("a whole number of at most {}", max));
  return integer;
}

int Node::small_integer(int min, int max) const { return static_cast<int>(integer(min, max)); }

double Node::number(double min, double max) const {
  if (!is_number()) expected("a number");
  if (value_->number < min) expected(fmt::format("a number of at least {}", min));
  if (value_->number > max) expected(fmt::format("a number of at most {}", max));
  return value_->number;
}

double Node::fraction(double min, double max) const {
  double value = 0;
  if (is_text()) {
    const std::string& text = value_->text;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    const std::string_view rest(end, static_cast<std::size_t>(last - end));
    if (error != std::errc{} || (rest != "%" && rest != " %") || !std::isfinite(value)) {
      expected("a fraction such as 0.12 or \"12%\"");
    }
    value /= 100;
  } else if (is_number()) {
    value = value_->number;
  } else {
    expected("a fraction such as 0.12 or \"12%\"");
  }
  if (value < min || value > max) expected(fmt::format("a fraction from {} to {}", min, max));
  return value;
}

double Node::quantity_value(std::string_view example, std::optional<double> parsed,
                            bool positive) const {
  if (is_number()) fail(fmt::format("{} has no unit; expected {}", shown(), example));
  if (!parsed || !std::isfinite(*parsed)) expected(example);
  if (*parsed < 0) fail(fmt::format("{} is negative; expected {}", shown(), example));
  if (positive && *parsed == 0) fail(fmt::format("{} is zero; expected {}", shown(), example));
  return *parsed;
}

std::size_t Node::index_among(std::span<const std::string_view> names) const {
  const std::string word = text();
  const auto found = std::find(names.begin(), names.end(), word);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  fail(fmt::format("expected one of {}, found {}{}", fmt::join(names, ", "), shown(),
                   did_you_mean(word, names)));
}

bool Node::is_text() const { return value_->kind == JsonKind::text; }
bool Node::is_object() const { return value_->kind == JsonKind::object; }
bool Node::is_array() const { return value_->kind == JsonKind::array; }
bool Node::is_null() const { return value_->kind == JsonKind::null; }
bool Node::is_boolean() const { return value_->kind == JsonKind::boolean; }
bool Node::is_number() const {
  return value_->kind == JsonKind::integer || value_->kind == JsonKind::number;
}

void Node::finish() const {
  std::vector<std::string> problems;
  append_unknown(*state_, *value_, problems);
  if (!problems.empty()) throw InputError(fmt::format("{}", fmt::join(problems, "\n")));
}

std::string Node::path() const { return pointer_to(*value_); }

std::string Node::place() const {
  return with_path(flopcast::place(*state_, *value_, Point::value), path());
}

std::string Node::shown() const {
  switch (value_->kind) {
    case JsonKind::null: return "null";
    case JsonKind::boolean: return value_->boolean ? "true" : "false";
    case JsonKind::integer: return value_->text;
    case JsonKind::number: return value_->text;
    case JsonKind::text: return in_quotes(value_->text);
    case JsonKind::array: return "a list";
    case JsonKind::object: return "an object";
  }
  return {};
}

void Node::fail(std::string_view problem) const {
  throw InputError(fmt::format("{}: {}", place(), problem));
}

void Node::expected(std::string_view what) const {
  fail(fmt::format("expected {}, found {}", what, shown()));
}

std::filesystem::path Node::folder() const {
  return std::filesystem::path(state_->name).parent_path();
}

}  // namespace flopcast
