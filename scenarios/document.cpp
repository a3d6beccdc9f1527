#include "scenarios/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "scenarios/json_tree.h"
#include "scenarios/text_file.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> steps;
  while (true) {
    const auto dot = path.find('.');
    steps.emplace_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return steps;
    path.remove_prefix(dot + 1);
  }
}

/// The value of an override: JSON, or else the words as they stand.
JsonValue override_value(std::string_view value) {
  try {
    return parse_json(value, "--set");
  } catch (const InputError&) {
    return {.kind = JsonKind::text, .text = std::string(value)};
  }
}

/// The member of an object or the element of an array that a step names; made if it is not there.
JsonValue& child(JsonValue& value, const std::string& step) {
  if (value.kind == JsonKind::array) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
    const bool whole = error == std::errc{} && end == step.data() + step.size();
    if (!whole || index >= value.values.size()) {
      throw InputError(fmt::format("\"{}\" is not one of the {} elements of the list", step,
                                   value.values.size()));
    }
    return value.values[index];
  }
  if (value.kind != JsonKind::object) {
    // "model" may be a name in the file and an object on the command line; the latter wins.
    value = JsonValue{};
    value.kind = JsonKind::object;
  }
  const auto found = std::find(value.keys.begin(), value.keys.end(), step);
  if (found != value.keys.end()) {
    return value.values[static_cast<std::size_t>(found - value.keys.begin())];
  }
  value.keys.push_back(step);
  return value.values.emplace_back();
}

void append_asked(const JsonValue& value, const std::string& path,
                  std::vector<std::string>& asked) {
  for (const std::string& key : value.missing) asked.push_back(path + "/" + key);
  for (std::size_t i = 0; i < value.values.size(); ++i) {
    const bool object = value.kind == JsonKind::object;
    const std::string below = path + "/" + (object ? value.keys[i] : "*");
    if (object && value.asked[i]) asked.push_back(below);
    append_asked(value.values[i], below, asked);
  }
}

}  // namespace

Document::Document(std::unique_ptr<DocumentState> state) : state_(std::move(state)) {}
Document::Document(Document&&) noexcept = default;
Document& Document::operator=(Document&&) noexcept = default;
Document::~Document() = default;

Document Document::read(const std::filesystem::path& file) {
  return parse(read_text_file(file, "a JSON file"), file.string());
}

Document Document::parse(std::string text, std::string name) {
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  auto state = std::make_unique<DocumentState>();
  state->root = parse_json(text, name);
  state->name = std::move(name);
  state->own_text = std::move(text);
  state->text = state->own_text;
  link(state->root);
  return Document(std::move(state));
}

Node Document::root() const { return {*state_, state_->root}; }

const std::string& Document::name() const { return state_->name; }

Document Document::part(const Node& value) const {
  auto state = std::make_unique<DocumentState>();
  state->name = state_->name;
  state->text = state_->text;
  state->root = *value.value_;
  state->root.parent = nullptr;
  state->root.ordinal = 0;
  state->root_steps = steps_to(*value.value_);
  link(state->root);
  return Document(std::move(state));
}

void Document::set(std::string_view path, const Node& value) {
  try {
    apply(path, *value.value_, {.pointer = {}, .origin = steps_to(*value.value_)});
  } catch (const InputError& error) {
    value.fail(error.what());
  }
}

void Document::set(std::string_view path, std::string_view value) {
  const std::string shown = fmt::format("--set {}={}", path, value);
  try {
    apply(path, override_value(value), {.pointer = {}, .shown = shown});
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", shown, error.what()));
  }
}

void Document::apply(std::string_view path, JsonValue value, AppliedOverride applied) {
  JsonValue* target = &state_->root;
  const auto steps = split_path(path);
  // A value of its own may hang as deep again below the last step; links are followed recursively.
  if (steps.size() > kDeepestNesting) {
    throw InputError(fmt::format("deeper than {} levels", kDeepestNesting));
  }
  for (const std::string& step : steps) {
    if (step.empty()) {
      throw InputError("expected a path of keys and a value, such as --set parallel.tp=4");
    }
    target = &child(*target, step);
  }
  *target = std::move(value);
  link(state_->root);
  const bool member = target->parent != nullptr && target->parent->kind == JsonKind::object;
  if (target->kind == JsonKind::null && member) {
    // Its place stays, so that the members behind it are still found in the text.
    target->removed = true;
    return;
  }
  // `target` is linked now and knows its path.
  applied.pointer = pointer_to(*target);
  state_->overrides.push_back(std::move(applied));
}

std::vector<std::string> Document::asked() const {
  std::vector<std::string> asked;
  append_asked(state_->root, "", asked);
  std::sort(asked.begin(), asked.end());
  asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
  return asked;
}

}  // namespace flopcast
