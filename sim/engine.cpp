#include "sim/engine.h"

#include <utility>

#include "sim/engine_state.h"

// The loop takes one instant after another. Within an instant it handles every event and lets every
// stream go on as far as it can; only then are compute ops and transfers rated anew, and stalls,
// memory and links accounted. What holds for no time leaves no trace, so the order within an
// instant cannot matter.

namespace flopcast {

EngineState::EngineState(const Workload& workload, TimelineSink* sink)
    : tables_(workload),
      sink_(sink),
      rates_(workload.links),
      streams_(tables_.streams),
      ranks_(workload.ranks.size()),
      categories_(workload.ranks.size() * tables_.categories),
      gatherings_(workload.groups.size()),
      joined_round_(tables_.slot_groups.size(), 0),
      messages_(workload.groups.size()),
      shares_(workload.ranks.size() * tables_.shares.size(), 0),
      pool_bytes_(workload.ranks.size() * tables_.pools, 0),
      link_since_(workload.links.size()),
      link_load_(workload.links.size(), 0),
      unfinished_(tables_.streams) {
  result_.ranks.resize(workload.ranks.size());
  result_.links.resize(workload.links.size());
  for (RankSummary& rank : result_.ranks) {
    rank.memory.by_pool.resize(tables_.pools);
    rank.memory.pool_peak.resize(tables_.pools);
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Rows rows = tables_.rank_streams[i];
    const Rows ops = tables_.program_streams[index_of(workload.ranks[i].program)];
    ranks_[i].unfinished = rows.size();
    for (std::uint32_t number = 0; number < rows.size(); ++number) {
      StreamRow& row = streams_[rows.begin + number];
      row.rank = RankId{static_cast<std::uint32_t>(i)};
      row.number = static_cast<std::uint16_t>(number);
      row.cursor = tables_.program_stream_ops[ops.begin + number].begin;
      row.end = tables_.program_stream_ops[ops.begin + number].end;
    }
  }
  book_kernels();
}

Result EngineState::run() {
  for (std::uint32_t stream = tables_.streams; stream-- > 0;) ready_.push_back(stream);
  drain_ready();
  apply_rates();
  while (!queue_.empty()) {
    if (const SimTime next = queue_.advance(); next != now_) {
      settle_touched();
      now_ = next;
    }
    while (queue_.due()) {
      const Event event = queue_.pop();
      if (const Event* next = queue_.next_due()) fetch(*next);
      handle(event);
      drain_ready();
    }
    apply_rates();
  }
  settle_touched();
  if (unfinished_ != 0) abort_deadlocked();
  return finish();
}

/// Has the event's subject brought to the cache while another is handled: with thousands of ranks
/// in step, waiting for memory is what takes the time.
void EngineState::fetch(const Event& event) const {
  if (event.kind == EventKind::kernel_done) {
    __builtin_prefetch(&streams_[event.subject]);
    __builtin_prefetch(&streams_[event.subject] + 1);  // which it often wakes
  } else {
    __builtin_prefetch(&flights_[event.subject]);
  }
}

void EngineState::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kernel_done:
      if (streams_[event.subject].ticket != event.sequence) return;
      return finish_compute(event.subject);
    case EventKind::latency_done:
      ++result_.events;  // nothing changes a latency, so none is stale
      return start_transfer(event.subject);
    case EventKind::transfer_done:
      if (flights_[event.subject].ticket != event.sequence) return;
      ++result_.events;
      return finish_transfer(event.subject);
  }
}

void EngineState::drain_ready() {
  while (!ready_.empty()) {
    const std::uint32_t stream = ready_.back();
    ready_.pop_back();
    advance(stream);
  }
}

/// Once per instant, after all of its events: new rates for transfers and compute ops.
void EngineState::apply_rates() {
  rerate_ranks();
  rates_.solve();
  for (const ActivityId id : rates_.changed_activities()) {
    Flight& flight = flights_[index_of(id)];
    const Bytes done = to_seconds(now_ - flight.since) * flight.rate;
    flight.remaining = done < flight.remaining ? flight.remaining - done : Bytes{};
    flight.since = now_;
    flight.rate = rates_.rate(id);
    flight.ticket = queue_.push(after(now_, flight.remaining / flight.rate),
                                EventKind::transfer_done, index_of(id));
  }
  for (const LinkId link : rates_.changed_links()) note_link(link);
}

Result EngineState::finish() {
  for (RankSummary& rank : result_.ranks) result_.makespan = std::max(result_.makespan, rank.end);
  for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
    RankSummary& rank = result_.ranks[r];
    rank.idle = result_.makespan - rank.end;
    rank.compute_busy = ranks_[r].compute_busy;
    for (std::size_t c = 0; c < tables_.categories; ++c) {
      const CategoryRow& row = categories_[r * tables_.categories + c];
      rank.by_category.push_back(row.time);
      rank.bytes_by_category.push_back(row.bytes);
      rank.ops_by_category.push_back(row.ops);
    }
  }
  return std::move(result_);
}

Result run(const Workload& workload, TimelineSink* sink) {
  return EngineState(workload, sink).run();
}

}  // namespace flopcast
