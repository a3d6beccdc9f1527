#include "sim/partition.h"

#include <algorithm>
#include <compare>
#include <utility>

#include "sim/check.h"
#include "sim/random.h"

namespace flopcast {
namespace {

struct Signature {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const Signature&, const Signature&) = default;
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
  struct Change {
    std::uint32_t node;
    std::uint32_t before;  // its class
  };

  /// One class for each colour; all nodes are touched.
  void make_classes(std::uint32_t nodes) {
    std::vector<std::uint32_t> next(std::size_t{nodes} + 1, 0);
    for (const std::uint32_t colour : class_of_) {
      FLOPCAST_CHECK(colour < nodes, "a colour is below the number of nodes");
      ++next[colour + 1];
    }
    for (std::uint32_t colour = 0; colour < nodes; ++colour) {
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
    const std::uint32_t touched_end = old.begin + old.touched;
    sort_touched(old);
    Class largest{};
    parts_.clear();
    for (std::uint32_t begin = old.begin; begin != old.end;) {
      Class part{.begin = begin, .end = begin, .signature = old.signature};
      if (begin < touched_end) part.signature = signatures_[elements_[begin]];
      while (part.end < touched_end && signatures_[elements_[part.end]] == part.signature) {
        ++part.end;
      }
      const bool to_the_end = part.end == touched_end && part.signature == old.signature;
      if (to_the_end && touched_end != old.end) part.end = old.end;
      if (part.end - part.begin > largest.end - largest.begin) largest = part;
      parts_.push_back(part);
      begin = part.end;
    }
    for (const Class& part : parts_) {
      if (part.begin != largest.begin) make_class(part, row);
    }
    classes_[row] = largest;
  }

  /// By signature; those that are as the untouched come last, so that they lie beside them.
  void sort_touched(const Class& row) {
    const auto begin = elements_.begin() + row.begin;
    const auto end = begin + row.touched;
    const auto before = [&](std::uint32_t a, std::uint32_t b) {
      const bool a_last = signatures_[a] == row.signature;
      const bool b_last = signatures_[b] == row.signature;
      return a_last != b_last ? b_last : signatures_[a] < signatures_[b];
    };
    const auto first = signatures_[*begin];
    const bool alike =
        std::all_of(begin, end, [&](std::uint32_t node) { return signatures_[node] == first; });
    if (alike) return;
    std::sort(begin, end, before);
    for (std::uint32_t i = row.begin; i != row.begin + row.touched; ++i)
      position_[elements_[i]] = i;
  }

  void make_class(const Class& part, std::uint32_t before) {
    const auto row = static_cast<std::uint32_t>(classes_.size());
    classes_.push_back(part);
    for (std::uint32_t i = part.begin; i != part.end; ++i) {
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
  std::vector<Class> parts_;  // of the class in work
};

}  // namespace

Adjacency::Adjacency(std::size_t nodes, std::span<const LabelledEdge> edges)
    : first_(nodes + 1, 0), halves_(2 * edges.size()) {
  for (const LabelledEdge& edge : edges) {
    FLOPCAST_CHECK(edge.a < nodes && edge.b < nodes, "an edge joins nodes");
    ++first_[edge.a + 1];
    ++first_[edge.b + 1];
  }
  for (std::size_t node = 0; node < nodes; ++node) first_[node + 1] += first_[node];
  std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
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
