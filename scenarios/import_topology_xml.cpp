// NCCL's description of a node: <system>, in it a <cpu> for each NUMA node, in it <pci> bridges
// and devices, in these a <gpu> with its <nvlink>s or a <nic> with its <net>s.
// Source: NCCL 2.30.7, graph/xml.cc and graph/topo.cc. The XML itself is read by
// Boost.PropertyTree; this file is its one door.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>

#include "scenarios/import_topology_parts.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

using Tree = boost::property_tree::ptree;

constexpr std::string_view kSwitchClass = "0x068000";  // PCI class of an NVSwitch

// Bridges above a device, the CPU first.
using Ancestors = std::vector<const Tree*>;

struct FoundGpu {
  Ancestors above;
  std::string bus;
  std::map<std::string, int> links;  // by PCI bus of the other end
  int switch_links = 0;
};

struct FoundCard {
  Ancestors above;
  std::string name;
  BytesPerSecond speed;
};

class Reader {
 public:
  Reader(const std::string& text, const std::string& name) : text_(text), name_(name) {}

  Wiring read() && {
    const Tree document = parsed();
    const auto system = document.get_child_optional("system");
    if (!system) fail_at(text_, 0, name_, "expected NCCL's <system>");
    walk(*system, {}, "");
    if (gpus_.empty()) fail_at(text_, text_.size(), name_, "no <gpu> in <system>");
    return wiring();
  }

 private:
  Tree parsed() const {
    std::istringstream in(text_);
    Tree document;
    try {
      boost::property_tree::read_xml(in, document);
    } catch (const boost::property_tree::xml_parser_error& error) {
      throw InputError(fmt::format("{}:{}: {}", name_, error.line(), error.message()));
    }
    return document;
  }

  void walk(const Tree& tree, const Ancestors& above, const std::string& bus) {
    for (const auto& [tag, child] : tree) {
      if (tag == "cpu" || tag == "pci") {
        Ancestors longer = above;
        longer.push_back(&child);
        const std::string place = tag == "pci" ? attribute(child, tag, "busid") : bus;
        ++seen_[tag];
        walk(child, longer, place);
      } else if (tag == "nic") {
        walk(child, above, bus);
      } else if (tag == "gpu") {
        add_gpu(child, above, bus);
      } else if (tag == "net") {
        add_card(child, above);
      }
    }
  }

  void add_gpu(const Tree& gpu, const Ancestors& above, const std::string& bus) {
    FoundGpu found{.above = above, .bus = bus, .links = {}, .switch_links = 0};
    ++seen_["gpu"];
    for (const auto& [tag, link] : gpu) {
      if (tag != "nvlink") continue;
      const int count = number(link, tag, "count", 1, 1000);
      const bool to_switch = link.get("<xmlattr>.tclass", std::string()) == kSwitchClass;
      if (to_switch) {
        found.switch_links += count;
      } else {
        found.links[attribute(link, tag, "target")] += count;
      }
      ++seen_["nvlink"];
    }
    gpus_.push_back(std::move(found));
  }

  void add_card(const Tree& net, const Ancestors& above) {
    constexpr int kMostMegabits = 10'000'000;
    const int speed = number(net, "net", "speed", 1, kMostMegabits);
    cards_.push_back({.above = above,
                      .name = attribute(net, "net", "name"),
                      .speed = gigabits_per_second(speed / 1000.0)});
    ++seen_["net"];
  }

  std::string attribute(const Tree& tree, const std::string& tag, const std::string& key) const {
    const auto value = tree.get_optional<std::string>("<xmlattr>." + key);
    if (!value) fail_at(text_, place_of_tag(tag), name_, fmt::format("<{}> has no {}", tag, key));
    return *value;
  }

  int number(const Tree& tree, const std::string& tag, const std::string& key, int least,
             int most) const {
    const std::string text = attribute(tree, tag, key);
    const auto value = tree.get_optional<int>("<xmlattr>." + key);
    if (!value || *value < least || *value > most) {
      fail_at(text_, place_of_tag(tag), name_,
              fmt::format("{} of <{}>: expected a whole number from {} to {}, found \"{}\"", key,
                          tag, least, most, text));
    }
    return *value;
  }

  // Of the tag that is being read: the first that has not been counted yet.
  std::size_t place_of_tag(const std::string& tag) const {
    const auto counted = seen_.find(tag);
    int skip = counted == seen_.end() ? 0 : counted->second;
    std::size_t at = text_.find("<" + tag + " ");
    while (skip-- > 0 && at != std::string::npos) at = text_.find("<" + tag + " ", at + 1);
    return std::min(at, text_.size());
  }

  Wiring wiring() const {
    Wiring wiring;
    wiring.gpus = gpus_.size();
    for (const FoundCard& card : cards_) {
      wiring.cards.push_back(card.name);
      wiring.card_speed = std::min(wiring.card_speed.value_or(card.speed), card.speed);
    }
    for (const FoundGpu& gpu : gpus_) {
      std::vector<int> links;
      for (const FoundGpu& other : gpus_) links.push_back(&gpu == &other ? 0 : between(gpu, other));
      std::vector<int> distance;
      for (const FoundCard& card : cards_) distance.push_back(path(gpu.above, card.above));
      wiring.switched = wiring.switched || gpu.switch_links > 0;
      wiring.nvlinks.push_back(std::move(links));
      wiring.distance.push_back(std::move(distance));
    }
    return wiring;
  }

  static int between(const FoundGpu& gpu, const FoundGpu& other) {
    const auto direct = gpu.links.find(other.bus);
    const int links = direct == gpu.links.end() ? 0 : direct->second;
    return links + std::min(gpu.switch_links, other.switch_links);
  }

  // Each device is its own last <pci>; above it bridges, and first the CPU.
  static int path(const Ancestors& a, const Ancestors& b) {
    enum Distance : std::uint8_t { pix, pxb, phb, node, sys };
    std::size_t shared = 0;
    while (shared < std::min(a.size(), b.size()) && a[shared] == b[shared]) ++shared;
    if (shared == 0) return sys;
    if (shared == 1) return phb;
    return a.size() - shared <= 1 && b.size() - shared <= 1 ? pix : pxb;
  }

  const std::string& text_;
  const std::string& name_;
  std::vector<FoundGpu> gpus_;
  std::vector<FoundCard> cards_;
  std::map<std::string, int> seen_;  // tags read so far, for the places of mistakes
};

}  // namespace

Wiring wiring_of_xml(const std::string& text, const std::string& name) {
  return Reader(text, name).read();
}

}  // namespace flopcast
