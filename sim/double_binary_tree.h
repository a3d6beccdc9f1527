#pragma once

// The two trees that NCCL builds over the nodes of a group: each carries half of the buffer, and no
// node is inside both (but rank 0 where the count is odd). Source: NCCL 2.30.7, src/graph/trees.cc.

#include <array>
#include <optional>

namespace flopcast {

struct TreeNode {
  std::optional<int> up;
  std::array<std::optional<int>, 2> down;

  friend bool operator==(const TreeNode&, const TreeNode&) = default;
};

struct DoubleBinaryTree {
  TreeNode first;
  TreeNode second;  // mirrored for an even count, shifted by one for an odd one
};

/// Neighbours of one node of `nodes`. Requires 0 <= rank < nodes.
DoubleBinaryTree double_binary_tree(int nodes, int rank);

}  // namespace flopcast
