#pragma once

// Reads members of an object into fields of a struct. Internal to the reader.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "scenarios/document.h"

namespace flopcast {

/// The object and whether its fields already have values (from a "base").
class Fields {
 public:
  Fields(const Node& node, bool has_base) : node_(node), has_base_(has_base) {}

  /// Must be there unless the base has it.
  std::optional<Node> needed(std::string_view key) const {
    return has_base_ ? node_.find(key) : std::optional(node_.at(key));
  }

  void needed_count(std::string_view key, std::int64_t& field, std::int64_t max) const {
    if (const auto node = needed(key)) field = node->integer(1, max);
  }
  void needed_count(std::string_view key, int& field, int max) const {
    if (const auto node = needed(key)) field = node->small_integer(1, max);
  }
  template <class Q>
  void needed_quantity(std::string_view key, Q& field) const {
    if (const auto node = needed(key)) field = node->positive_quantity<Q>();
  }

  void count(std::string_view key, std::int64_t& field, std::int64_t min, std::int64_t max) const {
    if (const auto node = node_.find(key)) field = node->integer(min, max);
  }
  void count(std::string_view key, int& field, int min, int max) const {
    if (const auto node = node_.find(key)) field = node->small_integer(min, max);
  }
  void flag(std::string_view key, bool& field) const {
    if (const auto node = node_.find(key)) field = node->boolean();
  }
  void text(std::string_view key, std::string& field) const {
    if (const auto node = node_.find(key)) field = node->text();
  }
  template <class Q>
  void quantity(std::string_view key, Q& field) const {
    if (const auto node = node_.find(key)) field = node->quantity<Q>();
  }
  template <class Q>
  void positive(std::string_view key, Q& field) const {
    if (const auto node = node_.find(key)) field = node->positive_quantity<Q>();
  }
  template <class E, class Choices>
  void kind(std::string_view key, E& field, const Choices& choices) const {
    if (const auto node = node_.find(key)) field = node->one_of(choices);
  }

 private:
  Node node_;
  bool has_base_;
};

}  // namespace flopcast
