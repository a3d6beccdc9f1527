#pragma once

// Routes through a fabric that the user lists as a graph: the least latency, then the fewest
// cables. Where several such routes lead on, a flow takes one by a hash of its ends.

#include <cstdint>
#include <vector>

#include "sim/units.h"
#include "topology/fabric.h"

namespace flopcast {

/// One direction of a cable.
struct CableStep {
  int cable = 0;
  bool forward = true;  // from `from` to `to`
  friend bool operator==(const CableStep&, const CableStep&) = default;
};

class GraphRoutes {
 public:
  GraphRoutes() = default;
  /// One shortest-path search per switch: Dijkstra, Numer. Math. 1, 1959.
  explicit GraphRoutes(const FabricGraph& graph);

  bool reaches(int from, int to) const;
  /// Steps of the flow in order, given to `step`. `to` must be within reach.
  template <class Step>
  void follow(int from, int to, std::uint64_t flow, Step step) const {
    while (from != to) {
      const Choice& choice = choices_[row(from, to)];
      const Hop& hop = hops_[choice.first + flow % choice.count];
      step(hop.step);
      from = hop.next;
    }
  }

 private:
  struct Hop {
    CableStep step;
    int next = 0;
  };
  // Steps from a switch that begin a shortest route to another: a run of hops_.
  struct Choice {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  std::size_t row(int from, int to) const {
    return static_cast<std::size_t>(from) * switches_ + static_cast<std::size_t>(to);
  }

  std::size_t switches_ = 0;
  std::vector<Choice> choices_;  // by from, to
  std::vector<Hop> hops_;
};

}  // namespace flopcast
