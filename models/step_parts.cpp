#include "models/step_parts.h"

#include <utility>

namespace flopcast {
namespace {

constexpr double kChunks = kTwoHopChunks;

/// A chunk of which all together are `sent` of what the collective counts, at such a pace that
/// kTwoHopChunks and one more take the collective's time.
ChunkTransfers chunks_of(const Transfer& collective, Bytes sent) {
  const Seconds turn = collective.size / collective.solo_rate / (kChunks + 1);
  ChunkTransfers chunks{.first = collective, .rest = collective};
  chunks.rest.latency = {};
  chunks.rest.pattern = 0;
  chunks.rest.size = sent / kChunks;
  chunks.rest.solo_rate = chunks.rest.size / turn;
  chunks.first = chunks.rest;
  chunks.first.latency = collective.latency / 2;  // of two hops
  return chunks;
}

/// Appends the ops of one stream.
class PartWriter {
 public:
  PartWriter(const PartRows& rows, MessageParts& parts) : rows_(rows), ops_(parts.emplace_back()) {
    const MessageLane lane = parts.size() == 1 ? MessageLane::first : MessageLane::other;
    category_ = id_of(static_cast<StepCategory>(rows.op.category), lane);
  }

  /// `transfer`: of which ChunkTransfers.
  void add(OpKind kind, std::uint32_t slot, std::uint32_t transfer, std::uint32_t chunk) {
    const std::uint32_t row = index_of(rows_.transfers) + 2 * transfer + (chunk == 0 ? 0 : 1);
    ops_.push_back({.kind = kind,
                    .category = category_,
                    .slot = static_cast<std::uint16_t>(rows_.first_slot + slot),
                    .row = kind == OpKind::recv ? 0 : row,
                    .tag = kind == OpKind::collective ? 0 : chunk,
                    .label = rows_.op.label});
  }
  void order(OpKind kind, std::uint32_t event) {
    ops_.push_back({.kind = kind, .row = rows_.first_event + event});
  }

 private:
  const PartRows& rows_;
  std::vector<Op>& ops_;
  CategoryId category_{};
};

enum TwoLevelRow : std::uint8_t { inside, outside };

}  // namespace

// Of S bytes a member hands S/L to each neighbour and sends S/D to each other domain: (L-1)/L and
// (D-1)/D of S, where it sends (n-1)/n straight.
double TwoLevels::weight() const {
  const double n = local * domains;
  return (2 * n - local - domains) / (n - 1);
}

TwoLevelTransfers two_level_transfers(const Transfer& collective, TwoLevels shape) {
  const double n = shape.local * shape.domains;
  const Bytes buffer = collective.size * (n / (n - 1)) / shape.weight();
  return {.inside = chunks_of(collective, buffer / shape.local),
          .outside = chunks_of(collective, buffer / shape.domains)};
}

/// Slots of a lane: to send by, to receive by. First come the lanes inside.
MessageParts two_level_parts(const PartRows& rows, TwoLevels shape) {
  MessageParts parts;
  parts.reserve(shape.streams());
  const std::uint32_t neighbours = shape.local - 1;
  for (std::uint32_t lane = neighbours; lane < shape.lanes(); ++lane) {
    PartWriter out(rows, parts);
    for (std::uint32_t chunk = 0; chunk < kTwoHopChunks; ++chunk) {
      out.order(OpKind::wait, chunk);
      out.add(OpKind::send, 2 * lane, outside, chunk);
      out.add(OpKind::recv, 2 * lane + 1, outside, chunk);
    }
  }
  for (std::uint32_t lane = 0; lane < neighbours; ++lane) {
    PartWriter out(rows, parts);
    for (std::uint32_t chunk = 0; chunk < kTwoHopChunks; ++chunk) {
      out.add(OpKind::send, 2 * lane, inside, chunk);
    }
  }
  PartWriter gathers(rows, parts);
  for (std::uint32_t chunk = 0; chunk < kTwoHopChunks; ++chunk) {
    for (std::uint32_t lane = 0; lane < neighbours; ++lane) {
      gathers.add(OpKind::recv, 2 * lane + 1, inside, chunk);
    }
    gathers.order(OpKind::record, chunk);
  }
  return parts;
}

// A slice is 1/n of the buffer. What the collective counts as sent is 2 (n-1)/n of it: the same
// for all slices, up and down.
ChunkTransfers in_switch_transfers(const Transfer& collective, std::uint32_t members) {
  return chunks_of(collective, collective.size / (2.0 * members));
}

/// Slots of a lane: to reduce by, to copy by.
MessageParts in_switch_parts(const PartRows& rows, std::uint32_t members) {
  MessageParts parts;
  parts.reserve(std::size_t{kInSwitchStreams} * members);
  for (std::uint32_t lane = 0; lane < in_switch_lanes(members); ++lane) {
    PartWriter reduces(rows, parts);
    PartWriter copies(rows, parts);
    for (std::uint32_t chunk = 0; chunk < kTwoHopChunks; ++chunk) {
      const std::uint32_t reduced = lane * kTwoHopChunks + chunk;
      reduces.add(OpKind::collective, 2 * lane, 0, chunk);
      reduces.order(OpKind::record, reduced);
      copies.order(OpKind::wait, reduced);
      copies.add(OpKind::collective, 2 * lane + 1, 0, chunk);
    }
  }
  return parts;
}

}  // namespace flopcast
