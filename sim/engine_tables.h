#pragma once

// A workload laid out for the loop: checked, flat, constant during a run.

#include <cstdint>
#include <span>
#include <vector>

#include "sim/program.h"
#include "sim/workload.h"

namespace flopcast {

/// Half-open range of rows.
struct Rows {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  std::uint32_t size() const { return end - begin; }
};

/// What a rank makes of the amounts of its program.
struct RankAmounts {
  double speed = 1;
  std::span<const Seconds> durations{};   // of compute ops that vary, by Op::tag - 1
  std::span<const std::int64_t> sizes{};  // of memory ops
};

/// What a group puts on links by one of its patterns.
struct LoadList {
  Rows rows{};           // in EngineTables::loads; each link once, weights above zero
  bool own = false;      // what has it never shares a link: a group's only collective
  double full_rate = 0;  // at which the first link is full
};

struct EngineTables {
  explicit EngineTables(const Workload& workload);

  std::uint32_t stream_row(RankId rank, std::uint32_t number) const {
    return rank_streams[index_of(rank)].begin + number;
  }
  GroupId group_of(RankId rank, std::uint16_t slot) const {
    return slot_groups[rank_slots[index_of(rank)] + slot];
  }
  const LoadList& load_list(GroupId group, std::uint8_t pattern) const;
  std::span<const LinkLoad> loads_of(const LoadList& list) const {
    return {loads.data() + list.rows.begin, list.rows.size()};
  }
  /// What RateSolver finds for an activity that shares none of its links.
  BytesPerSecond rate_alone(const LoadList& list, BytesPerSecond cap) const;

  const Workload& source;

  // Of all programs, stream by stream. A wait has in `slot` the number of the stream that records
  // its event, in `tag` the row of that op.
  std::vector<Op> ops;
  std::vector<Rows> program_stream_ops;  // in `ops`, by program_streams
  std::vector<Rows> program_streams;     // in `program_stream_ops`, by program

  std::vector<Rows> rank_streams;         // rows of streams, by rank
  std::vector<std::uint32_t> rank_slots;  // first in `slot_groups`, by rank
  std::vector<GroupId> slot_groups;       // by rank and slot
  std::vector<RankAmounts> rank_amounts;  // by rank
  std::vector<Seconds> durations;         // of all variants, one after another
  std::uint32_t streams = 0;

  std::vector<std::uint32_t> group_arrivals;  // that start a collective, by group
  std::vector<LinkLoad> loads;                // of all lists
  std::vector<LoadList> load_lists;           // by group_patterns
  std::vector<Rows> group_patterns;           // in `load_lists`, by group
  std::vector<double> link_capacity;          // bytes/s
  std::vector<double> shares;                 // of compute that transfers take: 0, then rising
  std::vector<std::uint32_t> transfer_share;  // row of `shares`, by TransferId

  std::size_t categories = 0;  // named or used
  std::size_t pools = 0;

 private:
  /// How many amounts the variants of a program have.
  struct AmountCounts {
    std::uint32_t rows = 0;
    std::uint32_t sizes = 0;
  };
  struct SlotUse {
    bool collective = false;
    bool send = false;
    bool recv = false;
  };
  void lay_out_program(const Program& program);
  void lay_out_waits(const Program& program, std::uint32_t first_stream);
  void check_op(const Op& op, const Program& program);
  void lay_out_variants();
  void find_own_links();
  void lay_out_shares();
  void lay_out_group(const Group& group);
  void lay_out_rank(const Rank& rank, RankId id);
  void check_slots(const Rank& rank, RankId id);
  RankAmounts amounts_of(const Rank& rank) const;

  std::vector<std::vector<SlotUse>> slot_use_;       // by program and slot
  std::vector<AmountCounts> amounts_;                // by program
  std::vector<std::size_t> variant_durations_;       // first of each variant
  std::vector<std::vector<RankId>> sorted_members_;  // by group
  std::vector<bool> group_messages_;                 // by group: it has them
};

}  // namespace flopcast
