#pragma once

// JSON with comments as the user wrote it: values that know their file, line and path, so that each
// error names the place, what was read, what was expected and the nearest valid name. The only
// reader of JSON; every file of ours goes through it.
//
//   const Document document = Document::read("pod.json");
//   const Node root = document.root();
//   spec.bandwidth = root.at("bandwidth").quantity<BytesPerSecond>();
//   root.finish();  // a key that nobody asked for is an error

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/units.h"

namespace flopcast {

struct DocumentState;  // text, tree and overrides: scenarios/json_tree.h
struct JsonValue;
struct AppliedOverride;

/// A word in a file and the value that it stands for.
template <class E>
struct Choice {
  std::string_view name;
  E value;
};

/// A value of a document; valid as long as the document. Each read checks kind and range and throws
/// InputError.
class Node {
 public:
  Node(const DocumentState& state, const JsonValue& value) : state_(&state), value_(&value) {}

  // members of an object
  Node at(std::string_view key) const;                   // it must be there
  std::optional<Node> find(std::string_view key) const;  // it may be there
  /// All members; all count as asked for.
  struct Member;
  std::vector<Member> members() const;

  /// Elements of an array.
  std::vector<Node> items() const;

  std::string text() const;
  bool boolean() const;
  std::int64_t integer(std::int64_t min = 0,
                       std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  int small_integer(int min = 0, int max = std::numeric_limits<int>::max()) const;
  double number(double min = 0, double max = std::numeric_limits<double>::max()) const;
  /// 0.12 or "12%".
  double fraction(double min = 0, double max = 1) const;
  /// "450 GB/s": a unit is required; 0 is allowed, a negative value is not.
  template <class Q>
  Q quantity() const;
  /// The same, but 0 is an error.
  template <class Q>
  Q positive_quantity() const;

  /// One of some words.
  template <class E, std::size_t N>
  E one_of(const Choice<E> (&choices)[N]) const;
  template <class E, std::size_t N>
  E one_of(const std::array<Choice<E>, N>& choices) const;
  /// One of the kinds by its to_text().
  template <class E, std::size_t N>
  E one_of(const std::array<E, N>& kinds) const;
  /// Position of the text among the names.
  std::size_t index_among(std::span<const std::string_view> names) const;

  bool is_text() const;
  bool is_object() const;
  bool is_array() const;
  bool is_number() const;
  bool is_boolean() const;
  bool is_null() const;

  /// Throws where an object, here or below, of which any key was asked for has a key that nobody
  /// asked for. Objects that were never looked into are left alone.
  void finish() const;

  /// "/parallel/tp"
  std::string path() const;
  /// "pod.json:31:17: /parallel/tp", or "--set parallel.tp=3: /parallel/tp".
  std::string place() const;
  /// What was read, shortened: `"fat_treee"`, `-3`, `an object`.
  std::string shown() const;
  /// Throws InputError "<place>: <problem>".
  [[noreturn]] void fail(std::string_view problem) const;
  /// Throws "expected <expected>, found <shown>".
  [[noreturn]] void expected(std::string_view what) const;
  /// Folder of the file, against which paths in it are resolved.
  std::filesystem::path folder() const;

 private:
  friend class Document;
  double quantity_value(std::string_view example, std::optional<double> parsed,
                        bool positive) const;

  const DocumentState* state_;
  const JsonValue* value_;
};

struct Node::Member {
  std::string key;
  Node value;
};

class Document {
 public:
  /// Throws InputError where the file is missing, unreadable or not JSON; on duplicate keys, on
  /// numbers that do not fit and on nesting deeper than 64.
  static Document read(const std::filesystem::path& file);
  /// `name` stands for the file in messages; relative paths in the text start at its folder.
  static Document parse(std::string text, std::string name);

  Document(Document&&) noexcept;
  Document& operator=(Document&&) noexcept;
  ~Document();

  Node root() const;
  const std::string& name() const;

  /// A document whose root is a copy of the value; messages still tell its place in this one, which
  /// must outlive it. The value must lie in this document.
  Document part(const Node& value) const;
  /// Sets a value as below, but to a copy of one of the document that this is a part of; messages
  /// tell where that one stands.
  void set(std::string_view path, const Node& value);
  /// Sets a value as `--set parallel.tp=4` does: creates what is missing on the way, numbers index
  /// arrays, the value is JSON or, where it is not, a bare word; null takes the key away. Earlier
  /// Nodes become invalid.
  void set(std::string_view path, std::string_view value);

  /// Keys that were asked for so far, there or not, as paths with "*" for array elements. For tests
  /// that hold the schema and the documentation to what the reader reads.
  std::vector<std::string> asked() const;

 private:
  explicit Document(std::unique_ptr<DocumentState> state);
  void apply(std::string_view path, JsonValue value, AppliedOverride applied);
  std::unique_ptr<DocumentState> state_;
};

template <class Q>
Q Node::quantity() const {
  const auto parsed = is_text() ? parse_quantity<Q>(text()) : std::nullopt;
  return {quantity_value(quantity_example<Q>(),
                         parsed ? std::optional(parsed->value) : std::nullopt, false)};
}

template <class Q>
Q Node::positive_quantity() const {
  const auto parsed = is_text() ? parse_quantity<Q>(text()) : std::nullopt;
  return {quantity_value(quantity_example<Q>(),
                         parsed ? std::optional(parsed->value) : std::nullopt, true)};
}

template <class E, std::size_t N>
E Node::one_of(const Choice<E> (&choices)[N]) const {
  std::array<std::string_view, N> names;
  for (std::size_t i = 0; i < N; ++i) names[i] = choices[i].name;
  return choices[index_among(names)].value;
}

template <class E, std::size_t N>
E Node::one_of(const std::array<Choice<E>, N>& choices) const {
  std::array<std::string_view, N> names;
  for (std::size_t i = 0; i < N; ++i) names[i] = choices[i].name;
  return choices[index_among(names)].value;
}

template <class E, std::size_t N>
E Node::one_of(const std::array<E, N>& kinds) const {
  std::array<std::string_view, N> names;
  for (std::size_t i = 0; i < N; ++i) names[i] = to_text(kinds[i]);
  return kinds[index_among(names)];
}

}  // namespace flopcast
