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
  std::vector<Seconds> backward{};  // by global stage; each of its two gradients takes half
  Seconds hop{};                    // latency of a message between ranks
  bool blocking = false;            // messages hold the compute stream
  bool pairs_at_once = false;       // an overlapped pair starts with both inputs and ends together
  bool free_at_input_gradient = false;  // not with the weight gradient
};

/// Writes the program of one pipeline rank. Activations are one byte per chunk and micro-batch,
/// from the start of the forward to the end of the backward. Messages have their own streams, one
/// per pass, neighbour and end, unless they block.
class ReplayProgram {
 public:
  ReplayProgram(int rank, const PipelineShape& shape, const ReplayCosts& costs)
      : rank_(rank), shape_(shape), costs_(costs), program_(kStreams) {}

  void add(const ScheduleOp& op) {
    const Work work{op.micro_batch, {rank_, op.chunk}};
    switch (op.pass) {
      case Pass::forward: return forward(work);
      case Pass::backward: return backward(work);
      case Pass::input_gradient: return input_gradient(work);
      case Pass::weight_gradient: return weight_gradient(work);
      case Pass::overlapped: return pair(work, {op.beside_micro_batch, {rank_, op.beside_chunk}});
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

  /// In the order of the kernel ids below.
  static std::vector<Kernel> kernels(const ReplayCosts& costs) {
    std::vector<Kernel> kernels;
    for (const Seconds time : costs.forward) kernels.push_back({time});
    for (const Seconds time : costs.backward) kernels.push_back({time});
    for (const Seconds time : costs.backward) kernels.push_back({0.5 * time});
    for (const Seconds forward : costs.forward) {
      for (const Seconds backward : costs.backward) kernels.push_back({forward + backward});
    }
    return kernels;
  }
  /// Pairs with the next rank, then with the previous.
  static std::vector<Group> neighbours(int ranks) {
    std::vector<Group> groups;
    for (const int step : {1, ranks - 1}) {
      for (int r = 0; r < ranks; ++r) {
        groups.push_back({.name = "pair",
                          .members = {RankId{number(r)}, RankId{number((r + step) % ranks)}},
                          .loads = {{}}});
      }
    }
    return groups;
  }

  static constexpr std::size_t kStreams = 9;  // compute; then by pass, neighbour and end

 private:
  static constexpr std::size_t kCompute = 0;
  enum Slot : std::uint16_t { kToNext, kFromPrevious, kToPrevious, kFromNext };
  enum class Way : std::uint8_t { forward, backward };
  struct Work {
    int micro_batch;
    StagePlace place;
  };

  int stage(const Work& work) const { return stage_of(shape_, work.place); }
  int stages() const { return stage_count(shape_); }

  void forward(const Work& work) {
    receive(Way::forward, work);
    program_.allocate(kCompute, CategoryId{0}, 1);
    compute(stage(work), 0);
    send(Way::forward, work);
  }
  void backward(const Work& work) {
    receive(Way::backward, work);
    compute(stages() + stage(work), 1);
    release();
    send(Way::backward, work);
  }
  void input_gradient(const Work& work) {
    receive(Way::backward, work);
    compute(2 * stages() + stage(work), 1);
    if (costs_.free_at_input_gradient) release();
    send(Way::backward, work);
  }
  void weight_gradient(const Work& work) {
    compute(2 * stages() + stage(work), 1);
    if (!costs_.free_at_input_gradient) release();
  }
  void pair(const Work& ahead, const Work& back) {
    if (!costs_.pairs_at_once) {
      forward(ahead);
      backward(back);
      return;
    }
    receive(Way::forward, ahead);
    receive(Way::backward, back);
    program_.allocate(kCompute, CategoryId{0}, 1);
    compute((3 + stage(ahead)) * stages() + stage(back), 1);
    release();
    send(Way::forward, ahead);
    send(Way::backward, back);
  }

  void compute(int kernel, std::uint16_t category) {
    program_.compute(kCompute, KernelId{number(kernel)}, CategoryId{category}, LabelId{0});
  }
  void release() { program_.release(kCompute, CategoryId{0}, 1); }

  std::uint32_t tag(Way way, const Work& work, int to_stage) const {
    return number((work.micro_batch * stages() + to_stage) * 2 + (way == Way::forward ? 0 : 1));
  }
  /// Whether a message goes to the next rank, in the ring that a loop closes, or comes from the
  /// previous one. The second chunk of a V and the second copy of a model run the other way.
  bool goes_up(Way way, const Work& work) const {
    const bool returns =
        shape_.placement == Placement::v || shape_.placement == Placement::bidirectional;
    return (way == Way::forward) != (returns && work.place.chunk == 1);
  }
  std::size_t stream(Slot slot, Way way) const {
    return 1 + slot + (way == Way::forward ? 0U : 4U);
  }
  void receive(Way way, const Work& work) {
    const auto from =
        way == Way::forward ? previous_place(shape_, work.place) : next_place(shape_, work.place);
    if (!from || from->rank == rank_) return;
    const Slot slot = goes_up(way, work) ? kFromPrevious : kFromNext;
    const std::size_t on = costs_.blocking ? kCompute : stream(slot, way);
    program_.recv(on, slot, tag(way, work, stage(work)), CategoryId{2}, LabelId{0});
    if (!costs_.blocking) program_.order(on, kCompute);
  }
  void send(Way way, const Work& work) {
    const auto to =
        way == Way::forward ? next_place(shape_, work.place) : previous_place(shape_, work.place);
    if (!to || to->rank == rank_) return;
    const Slot slot = goes_up(way, work) ? kToNext : kToPrevious;
    const std::size_t on = costs_.blocking ? kCompute : stream(slot, way);
    if (!costs_.blocking) program_.order(kCompute, on);
    program_.send(on, slot, tag(way, work, stage_of(shape_, *to)), TransferId{0}, CategoryId{2},
                  LabelId{0});
  }

  int rank_;
  PipelineShape shape_;
  const ReplayCosts& costs_;
  ProgramBuilder program_;
};

/// One rank per pipeline rank.
inline Workload schedule_workload(ScheduleKind kind, const ScheduleShape& shape,
                                  const ReplayCosts& costs) {
  Workload workload;
  workload.stream_names.assign(ReplayProgram::kStreams, "message");
  workload.stream_names.front() = "compute";
  workload.category_names = {"forward", "backward", "pipeline"};
  workload.pool_names = {"activations"};
  workload.labels = {"op"};
  workload.transfers = {{.latency = costs.hop, .size = {}, .solo_rate = bytes_per_second(1)}};
  workload.kernels = ReplayProgram::kernels(costs);
  workload.groups = ReplayProgram::neighbours(shape.ranks);
  const PipelineShape pipeline{placement_of(kind), shape.ranks, shape.chunks};
  const auto schedule = pipeline_schedule(kind, shape);
  for (int r = 0; r < shape.ranks; ++r) {
    ReplayProgram program(r, pipeline, costs);
    for (const ScheduleOp& op : schedule[static_cast<std::size_t>(r)]) program.add(op);
    workload.ranks.push_back(program.rank());
    workload.programs.push_back(std::move(program).finish());
  }
  return workload;
}

}  // namespace flopcast
