#pragma once

// What a Document holds. Internal to the reader.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flopcast {

enum class JsonKind : std::uint8_t { null, boolean, integer, number, text, array, object };

struct JsonValue {
  JsonKind kind = JsonKind::null;
  bool boolean = false;
  std::int64_t integer = 0;         // kind integer
  double number = 0;                // kinds integer and number
  std::string text{};               // of a text; of a number as it was written
  std::vector<std::string> keys{};  // of an object, in the order of the file
  std::vector<JsonValue> values{};  // of an object, beside its keys; elements of an array

  // Where it hangs; set by link() once the tree stands still.
  const JsonValue* parent = nullptr;
  std::size_t ordinal = 0;  // its position in the parent

  bool removed = false;  // by an option: its place is kept, but it is not there

  // Reading leaves a mark, so that what nobody asked for can be named.
  mutable std::vector<bool> asked{};           // by key
  mutable std::vector<std::string> missing{};  // keys asked for that are not there
};

/// A value that was set after reading, and where it is from.
struct AppliedOverride {
  std::string pointer;                // "/parallel/tp"
  std::string shown{};                // "--set parallel.tp=4"; empty: from elsewhere in the text
  std::vector<std::size_t> origin{};  // steps to it from the root of the text
};

struct DocumentState {
  std::string name;
  std::string own_text{};  // of a document that was read; parts share it
  std::string_view text;
  JsonValue root;
  std::vector<std::size_t> root_steps{};  // from the root of the text to `root`
  std::vector<AppliedOverride> overrides{};
};

// Deep enough for any file of ours; keeps hostile ones from eating the stack.
inline constexpr std::size_t kDeepestNesting = 64;

/// Parses and checks; `name` is for messages. Throws InputError.
JsonValue parse_json(std::string_view text, std::string_view name);

/// Sets parent and ordinal of all values below.
void link(JsonValue& value);

/// From the root to the value: the n-th member, the n-th element.
std::vector<std::size_t> steps_to(const JsonValue& value);

/// "/parallel/tp"
std::string pointer_to(const JsonValue& value);

}  // namespace flopcast
