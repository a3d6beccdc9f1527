#include "scenarios/hf_settings.h"

namespace flopcast {
namespace {

constexpr std::int64_t kLargest = 1 << 24;  // far beyond any model

bool is_null(const Node& node) {
  return !(node.is_text() || node.is_object() || node.is_array() || node.is_number() ||
           node.is_boolean());
}

}  // namespace

std::optional<Node> HfSettings::find(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    const std::optional<Node> value = node_.find(name);
    if (value && !is_null(*value)) return value;
  }
  return std::nullopt;
}

std::int64_t HfSettings::size(std::initializer_list<std::string_view> names) const {
  const auto value = find(names);
  return value ? value->integer(1, kLargest) : node_.at(*names.begin()).integer(1, kLargest);
}

std::int64_t HfSettings::size_or(std::initializer_list<std::string_view> names,
                                 std::int64_t without) const {
  const auto value = find(names);
  return value ? value->integer(1, kLargest) : without;
}

std::int64_t HfSettings::count_or(std::string_view name, std::int64_t without) const {
  const auto value = find({name});
  return value ? value->integer(0, kLargest) : without;
}

std::int64_t HfSettings::count_or_none(std::string_view name, std::int64_t without) const {
  return node_.find(name) ? count_or(name, 0) : without;
}

bool HfSettings::flag_or(std::string_view name, bool without) const {
  const auto value = find({name});
  return value ? value->boolean() : without;
}

double HfSettings::number_or(std::string_view name, double without) const {
  const auto value = find({name});
  return value ? value->number() : without;
}

HfSettings HfSettings::group(std::string_view name) const { return HfSettings(node_.at(name)); }

std::optional<HfSettings> HfSettings::find_group(std::string_view name) const {
  const auto value = find({name});
  return value ? std::optional(HfSettings(*value)) : std::nullopt;
}

void HfSettings::refuse(bool broken, std::string_view name, std::string_view problem) const {
  if (!broken) return;
  const auto value = find({name});
  (value ? *value : node_).fail(problem);
}

}  // namespace flopcast
