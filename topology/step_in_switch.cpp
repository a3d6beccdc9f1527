#include <cstdint>
#include <utility>
#include <vector>

#include "topology/step_algorithms.h"

namespace flopcast {

void add_in_switch(const CollectiveSteps& spec, const Cluster& cluster, StepBuilder& builder) {
  const auto chunks = static_cast<std::uint32_t>(spec.chunks);
  const Place ranks = builder.members();
  const TransferId transfer =
      builder.add_transfer(spec.size / static_cast<double>(ranks) / spec.chunks);
  Program program;
  for (Place owner = 0; owner < ranks; ++owner) {
    const GpuId gpu = builder.places().gpu(owner);
    std::vector<LinkLoad> reduce{{cluster.from_domain(gpu), 1}};
    std::vector<LinkLoad> copy{{cluster.to_domain(gpu), 1}};
    for (const GpuId member : builder.places().gpus()) {
      reduce.push_back({cluster.to_domain(member), 1});
      copy.push_back({cluster.from_domain(member), 1});
    }
    builder.join_all(std::move(reduce));
    builder.join_all(std::move(copy));
    const std::uint32_t first_event = program.events;
    program.events += chunks;
    StepStream reduces = add_stream(program);
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      reduces.collective(static_cast<std::uint16_t>(2 * owner), transfer);
      reduces.record(first_event + chunk);
    }
    StepStream copies = add_stream(program);
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      copies.wait(first_event + chunk);
      copies.collective(static_cast<std::uint16_t>(2 * owner + 1), transfer);
    }
  }
  builder.set_program(std::move(program));
}

}  // namespace flopcast
