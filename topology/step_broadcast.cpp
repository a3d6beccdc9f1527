#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "topology/ring_order.h"
#include "topology/step_algorithms.h"

namespace flopcast {

void add_broadcast_chain(const CollectiveSteps& spec, StepBuilder& builder) {
  const auto chunks = static_cast<std::uint32_t>(spec.chunks);
  const TransferId transfer = builder.add_transfer(spec.size / spec.channels / spec.chunks);
  const Place last = builder.members() - 1;
  std::vector<Program> programs(builder.members());
  for (Place channel = 0; channel < static_cast<Place>(spec.channels); ++channel) {
    const std::vector<Place> next = ring_successors(builder.places(), channel);
    StepBuilder::Connection in{};
    StepBuilder::Connection out{};
    for (Place place = 0, hops = 0; hops <= last; ++hops, place = next[place], in = out) {
      if (hops < last) out = builder.connect(place, next[place]);
      StepStream stream = add_stream(programs[place]);
      for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
        if (hops > 0) stream.recv(in.to_slot, chunk);
        if (hops < last) stream.send(out.from_slot, chunk, transfer);
      }
    }
  }
  builder.set_programs(std::move(programs));
}

void add_broadcast_tree(const CollectiveSteps& spec, StepBuilder& builder) {
  const TransferId transfer = builder.add_transfer(spec.size);
  std::vector<Program> programs(builder.members());
  for (Program& program : programs) program.streams.resize(1);
  for (Place holders = 1; holders < builder.members(); holders *= 2) {
    for (Place from = 0; from < std::min(holders, builder.members() - holders); ++from) {
      const StepBuilder::Connection pair = builder.connect(from, from + holders);
      StepStream{programs[from].streams.front()}.send(pair.from_slot, 0, transfer);
      StepStream{programs[from + holders].streams.front()}.recv(pair.to_slot, 0);
    }
  }
  builder.set_programs(std::move(programs));
}

}  // namespace flopcast
