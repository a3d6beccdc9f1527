#include <fmt/format.h>

#include <algorithm>

#include "scenarios/nearest.h"
#include "scenarios/scenario_parts.h"
#include "scenarios/shipped_data.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

constexpr double kLowestLevel = 0.01;
constexpr double kHighestLevel = 10;

std::vector<std::string> shipped_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  // A folder lists its files in any order.
  std::sort(names.begin(), names.end());
  return names;
}

[[noreturn]] void fail_unknown(const Node& node, std::string_view name, const std::string& problem,
                               const ShippedData& data) {
  const auto names = shipped_names(data.profiles());
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw Unsupported(fmt::format("{}: {}; shipped: {}{}", node.place(), problem,
                                fmt::join(known, ", "), did_you_mean(name, known)));
}

Profile named_profile(const Node& node, ShippedData& data) {
  const std::string name = node.text();
  if (is_file_path(name)) {
    const auto file = node.folder() / name;
    if (!std::filesystem::exists(file)) node.fail(fmt::format("no such file: {}", file.string()));
    return data.profile(file);
  }
  const auto file = data.profiles() / (name + ".json");
  if (!std::filesystem::exists(file)) {
    fail_unknown(node, name, fmt::format("no profile {}", node.shown()), data);
  }
  return data.profile(file);
}

}  // namespace

Profile choose_profile(const std::optional<Node>& node, const Node& root, const Gpu& gpu,
                       ShippedData& data) {
  if (!node) {
    const auto file = data.profiles() / (gpu.name + ".json");
    if (!std::filesystem::exists(file)) {
      fail_unknown(root, gpu.name,
                   fmt::format("no profile is shipped for {}; give \"profile\"", gpu.name), data);
    }
    return data.profile(file);
  }
  if (node->is_text()) return named_profile(*node, data);
  Profile profile = named_profile(node->at("name"), data);
  if (const auto level = node->find("level")) {
    profile.level = level->number(kLowestLevel, kHighestLevel);
    profile.level_provenance = {.evidence = Evidence::assumed, .source = level->place()};
  }
  return profile;
}

}  // namespace flopcast
