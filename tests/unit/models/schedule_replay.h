#pragma once

// Turns a pipeline schedule into a workload whose kernels and hops have stated times, so that tests
// can replay it on the engine.

#include <cstdint>
#include <utility>
#include <vector>

#include "models/pipeline_schedule.h"
#include "sim/program.h"
#include "sim/workload.h"

namespace flopcast {

struct ReplayCosts {
  std::vector<Seconds> forward{};   // by global stage
  std::vector<Seconds> backward{};  // by global stage
  Seconds hop{};                    // latency of a message between ranks
  bool blocking = false;            // messages hold the compute stream
};

/// Writes the program of one pipeline rank. Activations are one byte per chunk and micro-batch,
/// from the start of the forward to the end of the backward. Messages have their own streams, one
/// per direction and end, unless they block.
class ReplayProgram {
 public:
  ReplayProgram(int rank, const ScheduleShape& shape, bool blocking)
      : rank_(rank), shape_(shape), blocking_(blocking), program_(kStreams) {}

  void add(const ScheduleOp& op) {
    const int stages = shape_.ranks * shape_.chunks;
    const int stage = op.chunk * shape_.ranks + rank_;
    if (op.pass == Pass::forward) {
      if (stage > 0) receive(kForwardRecv, kFromPrevious, tag(op, stage));
      program_.allocate(kCompute, CategoryId{0}, 1);
      program_.compute(kCompute, KernelId{number(stage)}, CategoryId{0}, LabelId{0});
      if (stage + 1 < stages) send(kForwardSend, kToNext, tag(op, stage + 1));
    } else {
      if (stage + 1 < stages) receive(kBackwardRecv, kFromNext, tag(op, stage));
      program_.compute(kCompute, KernelId{number(stages + stage)}, CategoryId{1}, LabelId{0});
      program_.release(kCompute, CategoryId{0}, 1);
      if (stage > 0) send(kBackwardSend, kToPrevious, tag(op, stage - 1));
    }
  }

  Rank rank() const {
    const int ranks = shape_.ranks;
    const auto group = [](int id) { return GroupId{number(id)}; };
    return {.name = "stage",
            .program = ProgramId{number(rank_)},
            .groups = {group(rank_), group((rank_ + ranks - 1) % ranks), group(ranks + rank_),
                       group(ranks + (rank_ + 1) % ranks)}};
  }
  Program finish() && { return std::move(program_).finish(); }

  static std::uint32_t number(int value) { return static_cast<std::uint32_t>(value); }

 private:
  enum Stream : std::size_t {
    kCompute,
    kForwardSend,
    kForwardRecv,
    kBackwardSend,
    kBackwardRecv,
    kStreams,
  };
  enum Slot : std::uint16_t { kToNext, kFromPrevious, kToPrevious, kFromNext };

  std::uint32_t tag(const ScheduleOp& op, int to_stage) const {
    return number(op.micro_batch * shape_.ranks * shape_.chunks + to_stage);
  }
  void receive(Stream stream, Slot slot, std::uint32_t tag) {
    program_.recv(blocking_ ? kCompute : stream, slot, tag, CategoryId{2}, LabelId{0});
    if (!blocking_) program_.order(stream, kCompute);
  }
  void send(Stream stream, Slot slot, std::uint32_t tag) {
    if (!blocking_) program_.order(kCompute, stream);
    program_.send(blocking_ ? kCompute : stream, slot, tag, TransferId{0}, CategoryId{2},
                  LabelId{0});
  }

  int rank_;
  ScheduleShape shape_;
  bool blocking_;
  ProgramBuilder program_;
};

/// One rank per pipeline rank.
inline Workload schedule_workload(ScheduleKind kind, const ScheduleShape& shape,
                                  const ReplayCosts& costs) {
  Workload workload;
  workload.stream_names = {"compute", "forward send", "forward recv", "backward send",
                           "backward recv"};
  workload.category_names = {"forward", "backward", "pipeline"};
  workload.pool_names = {"activations"};
  workload.labels = {"op"};
  workload.transfers = {{.latency = costs.hop, .size = {}, .solo_rate = bytes_per_second(1)}};
  for (const Seconds time : costs.forward) workload.kernels.push_back({time});
  for (const Seconds time : costs.backward) workload.kernels.push_back({time});
  for (const int step : {1, shape.ranks - 1}) {  // pairs with the next rank, then the previous
    for (int r = 0; r < shape.ranks; ++r) {
      const RankId from{ReplayProgram::number(r)};
      const RankId to{ReplayProgram::number((r + step) % shape.ranks)};
      workload.groups.push_back({.name = "pair", .members = {from, to}, .loads = {{}}});
    }
  }
  const auto schedule = pipeline_schedule(kind, shape);
  for (int r = 0; r < shape.ranks; ++r) {
    ReplayProgram program(r, shape, costs.blocking);
    for (const ScheduleOp& op : schedule[static_cast<std::size_t>(r)]) program.add(op);
    workload.ranks.push_back(program.rank());
    workload.programs.push_back(std::move(program).finish());
  }
  return workload;
}

}  // namespace flopcast
