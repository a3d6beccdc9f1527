#pragma once

// All that changes while the engine runs, as one object owned by the run. Its functions are spread
// over engine.cpp (loop), engine_streams.cpp, engine_communication.cpp, engine_accounting.cpp and
// engine_deadlock.cpp.

#include <string>
#include <vector>

#include "sim/engine_tables.h"
#include "sim/event_queue.h"
#include "sim/rates.h"
#include "sim/result.h"
#include "sim/timeline.h"

namespace flopcast {

inline constexpr std::uint32_t kNoRow = 0xffffffffu;

enum class StreamState : std::uint8_t {
  ready,  // in the list of streams to go on
  computing,
  joining,       // in a collective that waits for members
  transferring,  // in a collective or send under way
  receiving,     // in a recv; `flight` says whether the message is under way
  blocked,       // waits for an event of its rank
  finished,
};

struct alignas(64) StreamRow {  // a line of the cache
  RankId rank{};
  std::uint16_t number = 0;
  StreamState state = StreamState::ready;
  std::uint32_t cursor = 0;        // the current op
  std::uint32_t end = 0;           // past the last
  std::uint32_t waiters = kNoRow;  // list: streams blocked by events that this one is to record
  std::uint32_t next = kNoRow;     // in a list of waiters, of a gathering collective or of a flight
  std::uint32_t flight = kNoRow;   // what it takes part in
  SimTime begin;                   // when it reached the current op

  // compute op only
  Seconds remaining;  // at full speed, at `since`
  SimTime since{};
  Ticket ticket = kNoTicket;
};
static_assert(sizeof(StreamRow) == 64);

/// What a standing compute stream is charged to.
enum class StallKind : std::uint8_t { none, exposed, waiting };
struct Stall {
  StallKind kind = StallKind::none;
  CategoryId category{};

  friend bool operator==(const Stall&, const Stall&) = default;
};

struct alignas(64) RankRow {     // a line of the cache
  std::uint32_t unfinished = 0;  // streams
  std::uint32_t computing = 0;   // of them, in a kernel
  double share = 0;  // of the GPU, taken by communication; compute ops are rated with it
  Stall stall;
  SimTime stall_since;
  SimTime compute_busy;
  std::int64_t memory = 0;      // bytes, all pools
  bool touched = false;         // in touched_
  bool memory_changed = false;  // in this instant
  bool share_changed = false;   // in rerated_
};
static_assert(sizeof(RankRow) == 64);

/// What a rank's ops of one category took, while the engine runs; RankSummary has the meanings.
struct CategoryRow {
  CategoryTime time;
  double bytes = 0;
  std::uint64_t ops = 0;
};

/// A collective between its first arrival and its start.
struct Gathering {
  std::uint32_t arrived = 0;
  std::uint32_t streams = kNoRow;  // list
  std::uint32_t transfer = 0;
  std::uint32_t round = 1;  // the n-th collective of the group
  bool under_way = false;   // the one before has not ended
};

/// A collective or message on its way.
struct Flight {
  GroupId group{};
  std::uint32_t transfer = 0;
  bool message = false;
  std::uint32_t streams = kNoRow;  // list: members, or the sender
  SimTime start{};
  Bytes remaining{};  // at `since`
  BytesPerSecond rate{};
  SimTime since{};
  Ticket ticket = kNoTicket;
};

/// One (group, tag) whose send and recv have not both ended.
struct Message {
  std::uint32_t tag = 0;
  std::uint32_t flight = kNoRow;    // kNoRow before the send and after the arrival
  std::uint32_t receiver = kNoRow;  // stream that waits for it
  bool sent = false;
};

class EngineState {
 public:
  EngineState(const Workload& workload, TimelineSink* sink);
  Result run();

 private:
  // engine.cpp
  void fetch(const Event& event) const;
  void handle(const Event& event);
  void drain_ready();
  void apply_rates();
  Result finish();

  // engine_streams.cpp: the programs
  void advance(std::uint32_t stream);
  bool execute(std::uint32_t stream, const Op& op);
  Seconds kernel_time(const StreamRow& row, std::uint32_t cursor) const;
  /// Seconds that compute ops get done per second: what communication leaves of the GPU.
  double progress_of(const StreamRow& row) const { return 1 - ranks_[index_of(row.rank)].share; }
  SimTime kernel_end(const StreamRow& row) const {
    return after(row.since, row.remaining / progress_of(row));
  }
  bool chained(const StreamRow& row, std::uint32_t cursor) const;
  void settle_chain(StreamRow& row);
  void start_compute(std::uint32_t stream);
  void rate_compute(StreamRow& row, std::uint32_t stream);
  void rerate_ranks();
  void settle_compute(RankId rank);
  void rate_compute(RankId rank);
  void finish_compute(std::uint32_t stream);
  void record_event(StreamRow& row);
  bool wait_for_event(std::uint32_t stream, const Op& op);
  void change_memory(RankId rank, const Op& op);
  void go_on(std::uint32_t stream);

  // engine_communication.cpp
  void join_collective(std::uint32_t stream, const Op& op);
  void start_collective(GroupId group);
  void start_send(std::uint32_t stream, const Op& op);
  bool start_recv(std::uint32_t stream, const Op& op);
  std::uint32_t launch(const Flight& flight);
  bool flies_alone(const Flight& flight) const;
  void fly_alone(std::uint32_t flight);
  void start_transfer(std::uint32_t flight);
  void finish_transfer(std::uint32_t flight);
  void deliver(const Flight& flight, std::uint32_t row);
  void end_communication(std::uint32_t stream, SimTime start, Bytes moved);
  void share_ranks(const Flight& flight, bool take);
  double share_taken(RankId rank) const;

  // engine_accounting.cpp
  void book_kernels();
  void book_kernels(RankId rank);
  void book_disturbance(const StreamRow& row, SimTime end);
  void touch(RankId rank);
  void settle_touched();
  Stall stall_of(RankId rank) const;
  void change_stall(RankId rank, Stall stall);
  void note_memory_peak(RankId rank);
  void note_link(LinkId link);
  void note_span(const StreamRow& row, SimTime start);
  CategoryRow& category_row(RankId rank, CategoryId category) {
    return categories_[index_of(rank) * tables_.categories + static_cast<std::size_t>(category)];
  }

  // engine_deadlock.cpp
  [[noreturn]] void abort_deadlocked() const;
  std::string describe(const StreamRow& row) const;

  bool undisturbed(const StreamRow& row) const {
    return row.since == row.begin && progress_of(row) == 1;
  }
  const Op& op_of(const StreamRow& row) const { return tables_.ops[row.cursor]; }

  const EngineTables tables_;
  TimelineSink* const sink_;
  const bool chains_ = sink_ == nullptr;
  SimTime now_;
  EventQueue queue_;
  RateSolver rates_;
  Result result_;

  std::vector<StreamRow> streams_;
  std::vector<RankRow> ranks_;
  std::vector<CategoryRow> categories_;         // by rank and category
  std::vector<Gathering> gatherings_;           // by group
  std::vector<std::uint32_t> joined_round_;     // by slot row: last collective that it joined
  std::vector<std::vector<Message>> messages_;  // by group, oldest first
  std::vector<Flight> flights_;
  std::vector<std::uint32_t> free_flights_;
  std::vector<std::uint16_t> shares_;     // by rank and row of tables_.shares: that run
  std::vector<std::int64_t> pool_bytes_;  // by rank and pool
  std::vector<SimTime> link_since_;       // last change of the link's load
  std::vector<double> link_load_;         // bytes/s since then
  std::uint64_t unfinished_ = 0;          // streams

  std::vector<std::uint32_t> ready_;
  std::vector<RankId> touched_;
  std::vector<RankId> rerated_;
};

}  // namespace flopcast
