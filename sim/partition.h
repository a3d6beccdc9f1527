#pragma once

// The coarsest equitable partition of a graph: nodes are equal as long as nothing tells them apart,
// neither their own colour nor how many neighbours of each class they have along each kind of edge.
//
// Colour refinement. A node's signature is the sum, over its edges, of a 128-bit hash of (label,
// class of the neighbour); a class whose nodes differ in their signatures splits. Where a class
// splits, its largest part keeps its number and only the neighbours of the others are looked at
// again, so that an edge is visited O(log nodes) times: O(E log N) hashes in all. A sum does not
// depend on the order of the edges, so the partition does not depend on the numbers of the nodes.
// Sources: Paige and Tarjan, SIAM J. Comput. 16(6), 1987 (the smaller parts);
// Berkholz, Bonsma and Grohe, Theory Comput. Syst. 60(4), 2017 (colour refinement).
// Two unlike nodes are taken for equal with a probability of N^2 / 2^128.

#include <cstdint>
#include <span>
#include <vector>

namespace flopcast {

struct LabelledEdge {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t label = 0;  // the same seen from either end
};

/// Half an edge, seen from its node.
struct HalfEdge {
  std::uint32_t to = 0;
  std::uint32_t label = 0;
};

/// Edges by node, in the order in which they were given.
class Adjacency {
 public:
  Adjacency(std::size_t nodes, std::span<const LabelledEdge> edges);

  std::span<const HalfEdge> of(std::uint32_t node) const {
    return {halves_.data() + first_[node], first_[node + 1] - first_[node]};
  }

 private:
  std::vector<std::uint32_t> first_;  // by node, one more at the end
  std::vector<HalfEdge> halves_;
};

/// The class of each node. `colours` (any numbers below the number of nodes) tells apart from the
/// start. Classes are numbered in order of their first nodes.
std::vector<std::uint32_t> equitable_partition(std::vector<std::uint32_t> colours,
                                               const Adjacency& adjacency);

}  // namespace flopcast
