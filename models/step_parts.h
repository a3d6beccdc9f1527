#pragma once

// Collectives as messages that hand chunks on from one stream to another: all-to-alls in two levels
// and reductions in the NVLink switch. Private to the step-level network.

#include <cstdint>
#include <vector>

#include "models/step_category.h"
#include "sim/program.h"
#include "sim/workload.h"

namespace flopcast {

/// Ops of one member's streams: the first is the collective's own, the others run beside it.
using MessageParts = std::vector<std::vector<Op>>;

/// A pipeline of C chunks over two hops takes C + 1 turns: 3 % more than C.
inline constexpr std::uint32_t kTwoHopChunks = 32;

/// Chunks of a message: the first carries the latency, and the row after it is of the others.
struct ChunkTransfers {
  Transfer first{};
  Transfer rest{};
};

/// A group of D domains with L members each, in equal places. A member hands to each other member
/// of its domain all that is for members in that one's place, and sends along its rail what it has
/// gathered, one message for each domain.
/// Source: NCCL 2.30.7, PXN level 2 (NCCL_P2P_PXN_LEVEL).
struct TwoLevels {
  std::uint32_t local = 1;    // L
  std::uint32_t domains = 1;  // D

  std::uint32_t lanes() const { return local - 1 + domains - 1; }
  std::uint32_t streams() const { return lanes() + 1; }  // one gathers
  /// Bytes on the wires per byte that is counted as sent: what goes through a neighbour takes two.
  double weight() const;
};
struct TwoLevelTransfers {
  ChunkTransfers inside{};
  ChunkTransfers outside{};
};
/// Alone, both levels together take what the collective takes.
TwoLevelTransfers two_level_transfers(const Transfer& collective, TwoLevels shape);

/// Every member takes care of one slice: the switch adds up what all have of it and hands it to
/// that member, which has the switch copy it to all. Each sends n slices up and its own once more.
/// Sources: NCCL 2.30.7, src/transport/nvls.cc; Klenk et al., ISCA 2020.
constexpr std::uint32_t in_switch_lanes(std::uint32_t members) { return members; }
inline constexpr std::uint32_t kInSwitchStreams = 2;  // of a lane: reduce, copy
ChunkTransfers in_switch_transfers(const Transfer& collective, std::uint32_t members);

/// Where the parts of one collective find their rows.
struct PartRows {
  const Op& op;  // the collective
  std::uint32_t first_slot = 0;
  TransferId transfers{};         // of all ChunkTransfers, one after another
  std::uint32_t first_event = 0;  // of kTwoHopChunks, of each lane in a switch
};
MessageParts two_level_parts(const PartRows& rows, TwoLevels shape);
MessageParts in_switch_parts(const PartRows& rows, std::uint32_t members);

}  // namespace flopcast
