#include "topology/graph_routes.h"

#include <cmath>
#include <limits>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>

namespace flopcast {

namespace {

// Latency in whole picoseconds, then cables: sums are exact, so that equal routes are equal.
using Length = std::int64_t;

Length length_of(const FabricGraph::Cable& cable) {
  constexpr Length kPicosecond = 1 << 12;  // more than the cables of any shortest route
  return std::llround(cable.latency.value * 1e12) * kPicosecond + 1;
}

using LengthGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, boost::no_property,
                          boost::property<boost::edge_weight_t, Length>>;

constexpr Length kNoPath = std::numeric_limits<Length>::max();

std::vector<Length> lengths_to(const LengthGraph& graph, std::size_t to) {
  std::vector<Length> lengths(boost::num_vertices(graph));
  boost::dijkstra_shortest_paths(graph, to, boost::distance_map(lengths.data()));
  return lengths;
}

}  // namespace

GraphRoutes::GraphRoutes(const FabricGraph& graph)
    : switches_(graph.switches.size()), choices_(switches_ * switches_) {
  LengthGraph lengths(switches_);
  std::vector<std::vector<Hop>> next_to(switches_);
  for (std::size_t i = 0; i < graph.cables.size(); ++i) {
    const FabricGraph::Cable& cable = graph.cables[i];
    const auto from = static_cast<std::size_t>(cable.from);
    const auto to = static_cast<std::size_t>(cable.to);
    boost::add_edge(from, to, length_of(cable), lengths);
    next_to[from].push_back({{static_cast<int>(i), true}, cable.to});
    next_to[to].push_back({{static_cast<int>(i), false}, cable.from});
  }
  for (std::size_t to = 0; to < switches_; ++to) {
    const std::vector<Length> left = lengths_to(lengths, to);
    for (std::size_t from = 0; from < switches_; ++from) {
      if (from == to || left[from] == kNoPath) continue;
      Choice& choice = choices_[from * switches_ + to];
      choice.first = static_cast<std::uint32_t>(hops_.size());
      for (const Hop& hop : next_to[from]) {
        const Length rest = left[static_cast<std::size_t>(hop.next)];
        const auto cable = static_cast<std::size_t>(hop.step.cable);
        if (length_of(graph.cables[cable]) + rest == left[from]) hops_.push_back(hop);
      }
      choice.count = static_cast<std::uint32_t>(hops_.size()) - choice.first;
    }
  }
}

bool GraphRoutes::reaches(int from, int to) const {
  return from == to || choices_[row(from, to)].count > 0;
}

}  // namespace flopcast
