#include "sim/partition.h"

#include <algorithm>

#include <utility>

#include "sim/check.h"
#include "sim/random.h"

namespace flopcast {
namespace {

struct Signature {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend bool operator==(const Signature&, const Signature&) = default;
  Signature& operator+=(Signature other) {
    high += other.high;
    low += other.low;
    return *this;
  }
  Signature& operator-=(Signature other) {
    high -= other.high;
    low -= other.low;
    return *this;
  }
};

Signature hash(std::uint32_t label, std::uint32_t colour) {
  const std::uint64_t both = (std::uint64_t{label} << 32U) | colour;
  const std::uint64_t high = mixed(both + kGoldenGamma);
  return {high, mixed(high ^ (both * 0xd6e8feb86659fd93U + 0xa0761d6478bd642fU))};
}

/// The nodes of a class lie side by side, those that a change has touched first.
class Refiner {
 public:
  Refiner(std::vector<std::uint32_t> colours, const Adjacency& adjacency)
      : adjacency_(adjacency),
        class_of_(std::move(colours)),
        signatures_(class_of_.size()),
        elements_(class_of_.size()),
        position_(class_of_.size()) {
    const auto nodes = static_cast<std::uint32_t>(class_of_.size());
    make_classes(nodes);
    for (std::uint32_t node = 0; node < nodes; ++node) {
      for (const HalfEdge& edge : adjacency_.of(node)) {
        signatures_[node] += hash(edge.label, class_of_[edge.to]);
      }
    }
  }

  std::vector<std::uint32_t> refine() && {
    while (!touched_classes_.empty()) {
      changes_.clear();
      for (const std::uint32_t row : touched_classes_) split(row);
      touched_classes_.clear();
      for (const Change& change : changes_) tell_neighbours(change);
    }
    return in_order_of_first_nodes();
  }

 private:
  struct Class {
    std::uint32_t begin = 0;  // in elements_
    std::uint32_t end = 0;
    std::uint32_t touched = 0;  // how many, from `begin` on
    Signature signature{};      // of those that are not touched
  };
  /// Of the class in work.
  struct Part {
    Signature signature{};
    std::uint32_t touched = 0;
    std::uint32_t size = 0;
    std::uint32_t begin = 0;
  };
  struct Change {
    std::uint32_t node;
    std::uint32_t before;  // its class
  };

  /// One class for each colour; all nodes are touched.
  void make_classes(std::uint32_t nodes) {
    std::uint32_t colours = 0;
    for (const std::uint32_t colour : class_of_) {
      FLOPCAST_CHECK(colour < nodes, "a colour is below the number of nodes");
      colours = std::max(colours, colour + 1);
    }
    std::vector<std::uint32_t> next(std::size_t{colours} + 1, 0);
    for (const std::uint32_t colour : class_of_) ++next[colour + 1];
    for (std::uint32_t colour = 0; colour < colours; ++colour) {
      next[colour + 1] += next[colour];
      const std::uint32_t size = next[colour + 1] - next[colour];
      classes_.push_back({.begin = next[colour], .end = next[colour + 1], .touched = size});
      if (size > 0) touched_classes_.push_back(colour);
    }
    for (std::uint32_t node = 0; node < nodes; ++node) {
      position_[node] = next[class_of_[node]]++;
      elements_[position_[node]] = node;
    }
  }

  /// Splits a class by signature. The largest part keeps its number.
  void split(std::uint32_t row) {
    const Class old = classes_[row];
    find_parts(old);
    if (parts_.size() > 1) place_parts(old);
    const Part* largest = &parts_.front();
    for (const Part& part : parts_) {
      if (part.size > largest->size) largest = &part;
    }
    for (const Part& part : parts_) {
      if (&part != largest) make_class(part, row);
    }
    classes_[row] = class_of(*largest);
  }

  static Class class_of(const Part& part) {
    return {.begin = part.begin,
            .end = part.begin + part.size,
            .touched = 0,
            .signature = part.signature};
  }

  /// One for each signature. What is untouched, if anything, is the first.
  void find_parts(const Class& row) {
    parts_.clear();
    places_.assign(kFewest, kNoPart);
    part_of_.clear();
    const std::uint32_t untouched = row.end - row.begin - row.touched;
    if (untouched > 0) part_with(row.signature).size = untouched;
    for (std::uint32_t i = row.begin; i != row.begin + row.touched; ++i) {
      const Signature& signature = signatures_[elements_[i]];
      const bool as_before = !part_of_.empty() && parts_[part_of_.back()].signature == signature;
      Part& part = as_before ? parts_[part_of_.back()] : part_with(signature);
      ++part.touched;
      ++part.size;
      part_of_.push_back(static_cast<std::uint32_t>(&part - parts_.data()));
    }
    parts_.front().begin = row.begin;
  }

  /// Found by hashing: there are few parts, and sums of hashes need no more mixing.
  Part& part_with(const Signature& signature) {
    if (2 * (parts_.size() + 1) > places_.size()) {
      places_.assign(2 * places_.size(), kNoPart);
      for (std::uint32_t part = 0; part < parts_.size(); ++part) {
        places_[place_of(parts_[part].signature)] = part;
      }
    }
    std::uint32_t& place = places_[place_of(signature)];
    if (place == kNoPart) {
      place = static_cast<std::uint32_t>(parts_.size());
      parts_.push_back({.signature = signature});
    }
    return parts_[place];
  }
  std::size_t place_of(const Signature& signature) const {
    const std::size_t mask = places_.size() - 1;
    std::size_t place = signature.low & mask;
    while (places_[place] != kNoPart && parts_[places_[place]].signature != signature) {
      place = (place + 1) & mask;
    }
    return place;
  }

  /// Nodes of a part side by side; those that are as the untouched lie beside them, last.
  void place_parts(const Class& row) {
    const bool rest = row.begin + row.touched != row.end;
    std::uint32_t begin = row.begin;
    for (std::size_t part = rest ? 1 : 0; part < parts_.size(); ++part) {
      parts_[part].begin = begin;
      begin += parts_[part].size;
    }
    if (rest) parts_.front().begin = begin;
    const auto first = elements_.begin() + row.begin;
    moved_.assign(first, first + row.touched);
    next_.clear();
    for (const Part& part : parts_) next_.push_back(part.begin);
    for (std::size_t i = 0; i < moved_.size(); ++i) {
      const std::uint32_t place = next_[part_of_[i]]++;
      elements_[place] = moved_[i];
      position_[moved_[i]] = place;
    }
  }

  void make_class(const Part& part, std::uint32_t before) {
    const auto row = static_cast<std::uint32_t>(classes_.size());
    classes_.push_back(class_of(part));
    for (std::uint32_t i = part.begin; i != part.begin + part.size; ++i) {
      class_of_[elements_[i]] = row;
      changes_.push_back({elements_[i], before});
    }
  }

  void tell_neighbours(const Change& change) {
    for (const HalfEdge& edge : adjacency_.of(change.node)) {
      touch(edge.to);
      signatures_[edge.to] -= hash(edge.label, change.before);
      signatures_[edge.to] += hash(edge.label, class_of_[change.node]);
    }
  }

  void touch(std::uint32_t node) {
    Class& row = classes_[class_of_[node]];
    const std::uint32_t first_untouched = row.begin + row.touched;
    if (position_[node] < first_untouched) return;
    if (row.touched == 0) touched_classes_.push_back(class_of_[node]);
    const std::uint32_t other = elements_[first_untouched];
    std::swap(elements_[first_untouched], elements_[position_[node]]);
    std::swap(position_[node], position_[other]);
    ++row.touched;
  }

  std::vector<std::uint32_t> in_order_of_first_nodes() {
    constexpr std::uint32_t kUnnumbered = 0xffffffffU;
    std::vector<std::uint32_t> number(classes_.size(), kUnnumbered);
    std::uint32_t next = 0;
    for (std::uint32_t& row : class_of_) {
      if (number[row] == kUnnumbered) number[row] = next++;
      row = number[row];
    }
    return std::move(class_of_);
  }

  const Adjacency& adjacency_;
  std::vector<std::uint32_t> class_of_;  // by node
  std::vector<Signature> signatures_;    // by node
  std::vector<std::uint32_t> elements_;  // nodes, class by class
  std::vector<std::uint32_t> position_;  // in elements_, by node
  std::vector<Class> classes_;
  std::vector<std::uint32_t> touched_classes_;
  std::vector<Change> changes_;

  // Of the class in work.
  static constexpr std::size_t kFewest = 16;
  static constexpr std::uint32_t kNoPart = 0xffffffffU;
  std::vector<Part> parts_;
  std::vector<std::uint32_t> places_;   // of parts, by hash: open addressing
  std::vector<std::uint32_t> part_of_;  // by touched node
  std::vector<std::uint32_t> moved_;
  std::vector<std::uint32_t> next_;  // place in each part
};

}  // namespace

Adjacency::Adjacency(std::size_t nodes, std::span<const LabelledEdge> edges)
    : first_(nodes + 1, 0), halves_(2 * edges.size()) {
  FLOPCAST_CHECK(halves_.size() < std::size_t{0xffffffffU}, "edges are fewer than 2^31");
  for (const LabelledEdge& edge : edges) {
    FLOPCAST_CHECK(edge.a < nodes && edge.b < nodes, "an edge joins nodes");
    ++first_[edge.a + 1];
    ++first_[edge.b + 1];
  }
  for (std::size_t node = 0; node < nodes; ++node) first_[node + 1] += first_[node];
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  for (const LabelledEdge& edge : edges) {
    halves_[next[edge.a]++] = {edge.b, edge.label};
    halves_[next[edge.b]++] = {edge.a, edge.label};
  }
}

std::vector<std::uint32_t> equitable_partition(std::vector<std::uint32_t> colours,
                                               const Adjacency& adjacency) {
  return Refiner(std::move(colours), adjacency).refine();
}

}  // namespace flopcast
