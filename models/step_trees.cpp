#include "models/step_trees.h"

#include <algorithm>

#include "sim/collective_kind.h"

namespace flopcast {
namespace {

/// A pipeline of C chunks over L hops takes C + L - 1 turns: 3 % more than C.
constexpr std::uint32_t kChunksPerHop = 32;

}  // namespace

GroupTrees::GroupTrees(const Cluster& cluster, std::span<const GpuId> gpus, std::uint32_t lanes)
    : places_(cluster, gpus) {
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    const TreeHalf half = lane % 2 == 0 ? TreeHalf::first : TreeHalf::second;
    parents_.push_back(tree_parents(places_, lane / 2, half));
    for (Place place = 0; place < places_.members(); ++place) {
      std::uint32_t depth = 0;
      for (auto up = parents_.back()[place]; up; up = parents_.back()[*up]) ++depth;
      hops_ = std::max(hops_, 2 * depth);
    }
  }
}

TreePlace GroupTrees::place_of(GpuId gpu, std::uint32_t lane) const {
  const auto found = std::ranges::find(places_.gpus(), gpu);
  const auto place = static_cast<Place>(found - places_.gpus().begin());
  const auto children = std::ranges::count(parents_[lane], std::optional<Place>(place));
  return {.parent = parents_[lane][place].has_value(),
          .children = static_cast<std::uint32_t>(children)};
}

// On each edge of each tree the buffer's part goes up and down, side by side; a rank of a ring
// sends bus_factor times the buffer.
TreeMessages tree_messages(const Transfer& collective, const GroupTrees& trees, int ranks) {
  TreeMessages messages{
      .chunks = kChunksPerHop * trees.hops(), .first = collective, .rest = collective};
  const Bytes buffer = collective.size / bus_factor(CollectiveKind::all_reduce, ranks);
  const Seconds alone = collective.size / collective.solo_rate;
  messages.rest.latency = {};
  messages.rest.pattern = 0;
  messages.rest.size = buffer / trees.lanes() / messages.chunks;
  messages.rest.solo_rate =
      static_cast<double>(messages.chunks + trees.hops() - 1) * (messages.rest.size / alone);
  messages.first = messages.rest;
  messages.first.latency = collective.latency / trees.hops();
  return messages;
}

/// A chunk goes on up when it has come from all children; down when it has come from the parent, or
/// at the root from all children.
void TreeLane::add_part(std::uint32_t part, MessageLane lane, std::vector<Op>& ops) const {
  const CategoryId category = id_of(static_cast<StepCategory>(op.category), lane);
  const auto add = [&](OpKind kind, std::uint32_t slot, std::uint32_t chunk) {
    const std::uint32_t row = index_of(first) + (chunk == 0 ? 0 : 1);
    ops.push_back({.kind = kind,
                   .category = category,
                   .slot = static_cast<std::uint16_t>(first_slot + slot),
                   .row = kind == OpKind::send ? row : 0,
                   .tag = chunk,
                   .label = op.label});
  };
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const Op passes{.kind = part < 2 ? OpKind::record : OpKind::wait, .row = chunk_events + chunk};
    if (part >= 2) {
      ops.push_back(passes);
      add(OpKind::send, down_to_child(part - 2), chunk);
      continue;
    }
    if (part == 1) add(OpKind::recv, kDownFromParent, chunk);
    for (std::uint32_t child = 0; part == 0 && child < place.children; ++child) {
      add(OpKind::recv, up_from_child(child), chunk);
    }
    if (part == 0 && place.parent) {
      add(OpKind::send, kUpToParent, chunk);
    } else if (place.children > 0) {
      ops.push_back(passes);
    }
  }
}

}  // namespace flopcast
