// Where time, memory and bandwidth went. Ranks touched in an instant are settled when the clock
// moves on, so only states that last are seen.

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/engine_state.h"

namespace flopcast {

/// What the kernels of all ranks take where nothing disturbs them, and their events. Ranks with
/// equal kernels have equal books.
void EngineState::book_kernels() {
  using Kernels = std::tuple<ProgramId, double, VariantId>;
  std::map<Kernels, RankId> booked;
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    const Rank& rank = tables_.source.ranks[i];
    RankId like{i};
    if (tables_.source.jitter.sigma == 0) {
      like = booked.try_emplace({rank.program, rank.speed, rank.variant}, like).first->second;
    }
    if (like == RankId{i}) {
      book_kernels(like);
    } else {
      ranks_[i].compute_busy = ranks_[index_of(like)].compute_busy;
    }
    for (std::size_t c = 0; c < tables_.categories; ++c) {
      const CategoryId category{static_cast<std::uint16_t>(c)};
      const CategoryRow& row = category_row(RankId{i}, category) = category_row(like, category);
      result_.events += row.ops;
    }
  }
}

void EngineState::book_kernels(RankId id) {
  const Rows rows = tables_.rank_streams[index_of(id)];
  for (std::uint32_t stream = rows.begin; stream != rows.end; ++stream) {
    const StreamRow& row = streams_[stream];
    for (std::uint32_t cursor = row.cursor; cursor != row.end; ++cursor) {
      const Op& op = tables_.ops[cursor];
      if (op.kind != OpKind::compute) continue;
      const SimTime alone = after(SimTime{}, kernel_time(row, cursor));
      CategoryRow& category = category_row(id, op.category);
      category.time.busy += alone;
      ++category.ops;
      if (row.number == kComputeStream) ranks_[index_of(id)].compute_busy += alone;
    }
  }
}

/// Of the row's kernel, which ends then.
void EngineState::book_disturbance(const StreamRow& row, SimTime end) {
  if (undisturbed(row)) return;
  const SimTime added = end - row.begin - after(SimTime{}, kernel_time(row, row.cursor));
  category_row(row.rank, op_of(row).category).time.busy += added;
  if (row.number == kComputeStream) ranks_[index_of(row.rank)].compute_busy += added;
  result_.ranks[index_of(row.rank)].slowdown += std::max(SimTime{}, added);
}

void EngineState::touch(RankId id) {
  RankRow& rank = ranks_[index_of(id)];
  if (rank.touched) return;
  rank.touched = true;
  touched_.push_back(id);
}

void EngineState::settle_touched() {
  for (const RankId id : touched_) {
    RankRow& rank = ranks_[index_of(id)];
    rank.touched = false;
    change_stall(id, stall_of(id));
    if (rank.memory_changed) note_memory_peak(id);
  }
  touched_.clear();
}

/// What the compute stream stands still for: the stream that is to record the event that it waits
/// for, or whichever that one waits for in turn. Once the compute stream has ended, the first of
/// the rank's streams that has not.
Stall EngineState::stall_of(RankId id) const {
  const Rows rows = tables_.rank_streams[index_of(id)];
  if (ranks_[index_of(id)].unfinished == 0) return {};
  std::uint32_t stream = rows.begin;
  if (streams_[stream].state == StreamState::computing) return {};
  while (streams_[stream].state == StreamState::finished) ++stream;
  for (std::uint32_t hops = 0; hops < rows.size(); ++hops) {
    const StreamRow& row = streams_[stream];
    const Op& op = op_of(row);
    switch (row.state) {
      case StreamState::computing:
      case StreamState::transferring: return {StallKind::exposed, op.category};
      case StreamState::joining: return {StallKind::waiting, op.category};
      case StreamState::receiving:
        return {row.flight == kNoRow ? StallKind::waiting : StallKind::exposed, op.category};
      case StreamState::blocked: stream = rows.begin + op.slot; break;
      case StreamState::ready:
      case StreamState::finished: return {};
    }
  }
  return {};  // streams that wait for one another in a circle: a deadlock, reported at the end
}

void EngineState::change_stall(RankId id, Stall stall) {
  RankRow& rank = ranks_[index_of(id)];
  if (stall == rank.stall) return;
  const SimTime took = now_ - rank.stall_since;
  switch (rank.stall.kind) {
    case StallKind::none: break;
    case StallKind::exposed: category_row(id, rank.stall.category).time.exposed += took; break;
    case StallKind::waiting: category_row(id, rank.stall.category).time.waiting += took; break;
  }
  rank.stall = stall;
  rank.stall_since = now_;
}

void EngineState::note_memory_peak(RankId id) {
  RankRow& rank = ranks_[index_of(id)];
  rank.memory_changed = false;
  MemoryPeak& peak = result_.ranks[index_of(id)].memory;
  const std::int64_t* const pools = pool_bytes_.data() + index_of(id) * tables_.pools;
  for (std::size_t pool = 0; pool < tables_.pools; ++pool) {
    peak.pool_peak[pool] = std::max(peak.pool_peak[pool], pools[pool]);
  }
  if (rank.memory > peak.total) {
    peak.total = rank.memory;
    peak.at = now_;
    std::copy_n(pools, tables_.pools, peak.by_pool.begin());
  }
  if (sink_ != nullptr) sink_->add(MemorySample{.rank = id, .at = now_, .bytes = rank.memory});
}

void EngineState::note_link(LinkId id) {
  const double load = rates_.load(id).value;
  double& before = link_load_[index_of(id)];
  if (load == before) return;
  LinkSummary& summary = result_.links[index_of(id)];
  SimTime& since = link_since_[index_of(id)];
  if (before > 0) summary.busy += now_ - since;
  summary.peak_use =
      std::max(summary.peak_use, load / tables_.source.links[index_of(id)].capacity.value);
  before = load;
  since = now_;
  if (sink_ != nullptr) sink_->add(LinkSample{.link = id, .at = now_, .rate = load});
}

void EngineState::note_span(const StreamRow& row, SimTime start) {
  if (sink_ == nullptr) return;
  const Op& op = op_of(row);
  sink_->add(Span{.rank = row.rank,
                  .stream = row.number,
                  .kind = op.kind,
                  .category = op.category,
                  .label = op.label,
                  .begin = row.begin,
                  .start = start,
                  .end = now_});
}

}  // namespace flopcast
