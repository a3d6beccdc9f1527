#pragma once

// Inside the step-level network: rows of a workload for the ranks of one collective and the pairs
// that send to each other.

#include <cstdint>
#include <span>
#include <vector>

#include "topology/collective_steps.h"
#include "topology/ring_order.h"

namespace flopcast {

class StepBuilder {
 public:
  StepBuilder(const Cluster& cluster, std::span<const GpuId> gpus, const CollectiveSteps& steps,
              Workload& network);

  const GroupPlaces& places() const { return places_; }
  Place members() const { return places_.members(); }
  Place domains() const { return places_.domains(); }
  Place domain_size(Place domain) const { return places_.domain_size(domain); }

  TransferId add_transfer(Bytes size);
  ProgramId add_program(Program program);
  void set_program(Place place, ProgramId program);
  void set_program(Program program);                 // of all members
  void set_programs(std::vector<Program> programs);  // by Place

  /// A connection from one member to another: the slots that its ends use it by.
  struct Connection {
    std::uint16_t from_slot;
    std::uint16_t to_slot;
  };
  Connection connect(Place from, Place to);
  /// Everyone sends to one other: connection k of this kind has slots 2k and 2k+1 at all members,
  /// if there is no other kind. `to` is a permutation.
  void connect_all(std::span<const Place> to);
  /// A flow in which all take part, in the same slot as of now.
  void join_all(std::vector<LinkLoad> loads);

 private:
  GroupId add_pair(Place from, Place to);
  std::uint16_t add_slot(Place place, GroupId group);

  const Cluster& cluster_;
  const CollectiveSteps& steps_;
  Workload& network_;
  std::uint32_t first_rank_;
  GroupPlaces places_;
};

/// Ops of one stream; category and label are the same for all.
struct StepStream {
  std::vector<Op>& ops;

  void send(std::uint16_t slot, std::uint32_t tag, TransferId transfer) {
    ops.push_back({.kind = OpKind::send, .slot = slot, .row = index_of(transfer), .tag = tag});
  }
  void collective(std::uint16_t slot, TransferId transfer) {
    ops.push_back({.kind = OpKind::collective, .slot = slot, .row = index_of(transfer)});
  }
  void recv(std::uint16_t slot, std::uint32_t tag) {
    ops.push_back({.kind = OpKind::recv, .slot = slot, .tag = tag});
  }
  void record(std::uint32_t event) { ops.push_back({.kind = OpKind::record, .row = event}); }
  void wait(std::uint32_t event) { ops.push_back({.kind = OpKind::wait, .row = event}); }
};
inline StepStream add_stream(Program& program) { return {program.streams.emplace_back()}; }

}  // namespace flopcast
