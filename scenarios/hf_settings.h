#pragma once

// The settings of a Hugging Face configuration, by any of the names that the families use for the
// same thing. Internal to the importer.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "scenarios/document.h"

namespace flopcast {

class HfSettings {
 public:
  explicit HfSettings(const Node& node) : node_(node) {}

  /// The first of the names that is there; nothing where all are missing or null.
  std::optional<Node> find(std::initializer_list<std::string_view> names) const;

  /// At least 1, at most 2^24. `size` fails on the first name where none is there.
  std::int64_t size(std::initializer_list<std::string_view> names) const;
  std::int64_t size_or(std::initializer_list<std::string_view> names, std::int64_t without) const;
  /// The same, or 0.
  std::int64_t count_or(std::string_view name, std::int64_t without) const;
  /// The same, but null says "none": 0.
  std::int64_t count_or_none(std::string_view name, std::int64_t without) const;
  bool flag_or(std::string_view name, bool without) const;
  double number_or(std::string_view name, double without) const;

  /// An object of settings within this one.
  HfSettings group(std::string_view name) const;
  std::optional<HfSettings> find_group(std::string_view name) const;

  /// Refuses, at its place, a setting that makes the module one that no field of the shape tells.
  void refuse(bool broken, std::string_view name, std::string_view problem) const;

 private:
  Node node_;
};

}  // namespace flopcast
