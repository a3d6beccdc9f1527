#include "sim/double_binary_tree.h"

#include "sim/check.h"

namespace flopcast {
namespace {

int lowest_bit(int value) { return value & -value; }

// In-order numbering: a rank's height is the place of its lowest set bit; its parent has that bit
// cleared and the next one set, or only cleared where that would be outside. Rank 0 is the root and
// has one child, the largest power of two.
std::optional<int> parent(int nodes, int rank) {
  if (rank == 0) {
    return std::nullopt;
  }
  const int bit = lowest_bit(rank);
  const int up = (rank ^ bit) | (bit << 1);
  return up < nodes ? up : rank ^ bit;
}

int largest_power_below(int nodes) {
  int power = 1;
  while (power * 2 < nodes) {
    power *= 2;
  }
  return power;
}

TreeNode tree_node(int nodes, int rank) {
  TreeNode node;
  node.up = parent(nodes, rank);
  if (rank == 0) {
    if (nodes > 1) {
      node.down[1] = largest_power_below(nodes);
    }
    return node;
  }
  int half = lowest_bit(rank) >> 1;
  if (half == 0) {
    return node;
  }
  node.down[0] = rank - half;
  while (half > 0 && rank + half >= nodes) {
    half >>= 1;
  }
  if (half > 0) {
    node.down[1] = rank + half;
  }
  return node;
}

template <class Rename>
TreeNode renamed(TreeNode node, const Rename& rename) {
  for (std::optional<int>* neighbour : {&node.up, &node.down[0], &node.down[1]}) {
    if (*neighbour) {
      *neighbour = rename(**neighbour);
    }
  }
  return node;
}

}  // namespace

DoubleBinaryTree double_binary_tree(int nodes, int rank) {
  FLOPCAST_CHECK(rank >= 0 && rank < nodes, "a rank of the group");
  const TreeNode first = tree_node(nodes, rank);
  if (nodes % 2 == 0) {
    const auto mirror = [nodes](int r) { return nodes - 1 - r; };
    return {.first = first, .second = renamed(tree_node(nodes, mirror(rank)), mirror)};
  }
  const int shifted = (rank + nodes - 1) % nodes;
  return {.first = first,
          .second = renamed(tree_node(nodes, shifted), [nodes](int r) { return (r + 1) % nodes; })};
}

}  // namespace flopcast
