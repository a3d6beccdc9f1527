// Programs: each stream executes its ops in order until one takes time or has to wait.

#include <algorithm>

#include "sim/check.h"
#include "sim/engine_state.h"
#include "sim/random.h"

namespace flopcast {

void EngineState::advance(std::uint32_t stream) {
  StreamRow& row = streams_[stream];
  row.begin = now_;
  touch(row.rank);
  while (row.cursor != row.end) {
    if (!execute(stream, op_of(row))) return;
    ++row.cursor;
  }
  row.state = StreamState::finished;
  --unfinished_;
  RankRow& rank = ranks_[index_of(row.rank)];
  if (--rank.unfinished == 0) result_.ranks[index_of(row.rank)].end = now_;
}

/// True where the op is done at once.
bool EngineState::execute(std::uint32_t stream, const Op& op) {
  switch (op.kind) {
    case OpKind::compute: start_compute(stream); return false;
    case OpKind::collective: join_collective(stream, op); return false;
    case OpKind::send: start_send(stream, op); return false;
    case OpKind::recv: return start_recv(stream, op);
    case OpKind::record: record_event(streams_[stream]); return true;
    case OpKind::wait: return wait_for_event(stream, op);
    case OpKind::allocate:
    case OpKind::release: change_memory(streams_[stream].rank, op); return true;
  }
  return false;
}

/// The current op is done: the stream goes on to the next within this instant.
void EngineState::go_on(std::uint32_t stream) {
  StreamRow& row = streams_[stream];
  row.state = StreamState::ready;
  ++row.cursor;
  ready_.push_back(stream);
}

/// Of the row's op at `cursor`, undisturbed. Draws count from the stream's end, which is the same
/// wherever the program stands in the tables.
Seconds EngineState::kernel_time(const StreamRow& row, std::uint32_t cursor) const {
  const Op& op = tables_.ops[cursor];
  const RankAmounts& own = tables_.rank_amounts[index_of(row.rank)];
  const Seconds time =
      (op.tag == 0 ? tables_.source.kernels[op.row].duration : own.durations[op.tag - 1]) /
      own.speed;
  const KernelJitter& jitter = tables_.source.jitter;
  if (jitter.sigma == 0) return time;
  const std::uint64_t place = (std::uint64_t{row.number} << 32U) | (row.end - cursor);
  const std::uint64_t seed =
      random_bits(jitter.seed, tables_.source.ranks[index_of(row.rank)].draws);
  return random_factor(jitter.sigma, random_bits(seed, place)) * time;
}

// Kernels that follow one another on the compute stream are a chain: nothing outside it can see
// where one ends and the next begins, so all of them take one event, at the end of the last. Only
// a timeline wants each end, and only communication that starts or ends meanwhile has the chain
// brought up to date. What kernels take undisturbed is booked before the run (book_kernels).

bool EngineState::chained(const StreamRow& row, std::uint32_t cursor) const {
  return chains_ && row.number == kComputeStream && cursor + 1 != row.end &&
         tables_.ops[cursor + 1].kind == OpKind::compute;
}

void EngineState::start_compute(std::uint32_t stream) {
  StreamRow& row = streams_[stream];
  row.state = StreamState::computing;
  ++ranks_[index_of(row.rank)].computing;
  row.remaining = kernel_time(row, row.cursor);
  row.since = now_;
  rate_compute(row, stream);
}

void EngineState::rate_compute(StreamRow& row, std::uint32_t stream) {
  row.ticket = kNoTicket;
  const double progress = progress_of(row);
  if (progress <= 0) return;
  SimTime end = kernel_end(row);
  for (std::uint32_t cursor = row.cursor; chained(row, cursor); ++cursor) {
    end = after(end, kernel_time(row, cursor + 1) / progress);
  }
  row.ticket = queue_.push(end, EventKind::kernel_done, stream);
}

/// Goes on to the kernel of the chain that runs now.
void EngineState::settle_chain(StreamRow& row) {
  while (chained(row, row.cursor)) {
    const SimTime end = kernel_end(row);
    if (end > now_) return;
    book_disturbance(row, end);
    ++row.cursor;
    row.begin = row.since = end;
    row.remaining = kernel_time(row, row.cursor);
  }
}

/// Communication started or ended on these ranks in this instant: rates their compute ops anew.
void EngineState::rerate_ranks() {
  for (const RankId id : rerated_) {
    RankRow& rank = ranks_[index_of(id)];
    rank.share_changed = false;
    const double share = share_taken(id);
    if (share == rank.share) continue;
    if (rank.computing > 0) settle_compute(id);
    rank.share = share;
    if (rank.computing > 0) rate_compute(id);
  }
  rerated_.clear();
}

/// What the rank's kernels have done until now.
void EngineState::settle_compute(RankId id) {
  std::uint32_t left = ranks_[index_of(id)].computing;
  for (std::uint32_t stream = tables_.rank_streams[index_of(id)].begin; left > 0; ++stream) {
    StreamRow& row = streams_[stream];
    if (row.state != StreamState::computing) continue;
    --left;
    const double progress = progress_of(row);
    if (progress > 0) settle_chain(row);
    const Seconds done = to_seconds(now_ - row.since) * progress;
    row.remaining = done < row.remaining ? row.remaining - done : Seconds{};
    row.since = now_;
  }
}

void EngineState::rate_compute(RankId id) {
  std::uint32_t left = ranks_[index_of(id)].computing;
  for (std::uint32_t stream = tables_.rank_streams[index_of(id)].begin; left > 0; ++stream) {
    StreamRow& row = streams_[stream];
    if (row.state != StreamState::computing) continue;
    --left;
    rate_compute(row, stream);
  }
}

void EngineState::finish_compute(std::uint32_t stream) {
  StreamRow& row = streams_[stream];
  if (undisturbed(row)) {
    while (chained(row, row.cursor)) ++row.cursor;
  } else {
    settle_chain(row);
    book_disturbance(row, now_);
  }
  row.ticket = kNoTicket;
  --ranks_[index_of(row.rank)].computing;
  note_span(row, row.begin);
  go_on(stream);
}

/// The streams that wait for this op go on.
void EngineState::record_event(StreamRow& row) {
  std::uint32_t* link = &row.waiters;
  while (*link != kNoRow) {
    const std::uint32_t waiter = *link;
    StreamRow& waiting = streams_[waiter];
    if (op_of(waiting).tag == row.cursor) {
      *link = waiting.next;
      go_on(waiter);
    } else {
      link = &waiting.next;
    }
  }
}

/// True where the event is recorded.
bool EngineState::wait_for_event(std::uint32_t stream, const Op& op) {
  StreamRow& row = streams_[stream];
  StreamRow& recorder = streams_[tables_.stream_row(row.rank, op.slot)];
  if (recorder.cursor > op.tag) return true;
  row.state = StreamState::blocked;
  row.next = recorder.waiters;
  recorder.waiters = stream;
  return false;
}

void EngineState::change_memory(RankId id, const Op& op) {
  RankRow& rank = ranks_[index_of(id)];
  const std::int64_t size =
      op.tag == 0 ? op.size : tables_.rank_amounts[index_of(id)].sizes[op.tag - 1];
  const std::int64_t change = op.kind == OpKind::allocate ? size : -size;
  std::int64_t& pool =
      pool_bytes_[index_of(id) * tables_.pools + static_cast<std::size_t>(op.category)];
  pool += change;
  rank.memory += change;
  FLOPCAST_CHECK(pool >= 0, "no more memory is released than was allocated");
  rank.memory_changed = true;
}

}  // namespace flopcast
