#include "topology/collective_steps.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/check.h"
#include "topology/group_load.h"
#include "topology/step_algorithms.h"
#include "topology/step_builder.h"

namespace flopcast {

namespace {

std::uint32_t count(int number) { return static_cast<std::uint32_t>(number); }

// --- Ring ---------------------------------------------------------------------------------------

/// Each channel cuts its part into one piece per rank. In each step a rank passes on the piece that
/// it received in the step before: n - 1 steps to reduce or to gather, twice as many for both.
/// Source: Patarasuk and Yuan, J. Parallel Distrib. Comput. 69(2), 2009.
void add_ring(const CollectiveSteps& spec, StepBuilder& builder) {
  const Place ranks = builder.members();
  const std::uint32_t steps = (spec.kind == CollectiveKind::all_reduce ? 2 : 1) * (ranks - 1);
  const TransferId transfer =
      builder.add_transfer(spec.size / spec.channels / spec.chunks / static_cast<double>(ranks));
  Program program;
  for (Place channel = 0; channel < count(spec.channels); ++channel) {
    builder.connect_all(ring_successors(builder.places(), channel));
    StepStream stream = add_stream(program);
    const auto to_next = static_cast<std::uint16_t>(2 * channel);
    const auto from_previous = static_cast<std::uint16_t>(2 * channel + 1);
    for (std::uint32_t tag = 0; tag < steps * count(spec.chunks); ++tag) {
      if (tag >= count(spec.chunks)) stream.recv(from_previous, tag - count(spec.chunks));
      stream.send(to_next, tag, transfer);
    }
    for (std::uint32_t chunk = 0; chunk < count(spec.chunks); ++chunk) {
      stream.recv(from_previous, (steps - 1) * count(spec.chunks) + chunk);
    }
  }
  builder.set_program(std::move(program));
}

// --- Trees --------------------------------------------------------------------------------------

/// One member's place in one tree: slots of its connections.
struct TreeSlots {
  std::optional<StepBuilder::Connection> parent;  // from: up; to: down, both at the child
  std::vector<std::uint16_t> from_children;
  std::vector<std::uint16_t> to_children;
};

/// Up: a chunk goes on when it has come from all children. Down: when it has come from the parent,
/// or at the root from all children; to every child at once.
void add_tree_streams(const TreeSlots& slots, std::uint32_t chunks, TransferId transfer,
                      Program& program) {
  const std::uint32_t first_event = program.events;
  const bool passes_down = !slots.to_children.empty();
  if (passes_down) program.events += chunks;
  StepStream up = add_stream(program);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    for (const std::uint16_t child : slots.from_children) up.recv(child, chunk);
    if (slots.parent) {
      up.send(slots.parent->from_slot, chunk, transfer);
    } else if (passes_down) {
      up.record(first_event + chunk);
    }
  }
  if (slots.parent) {
    StepStream down = add_stream(program);
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      down.recv(slots.parent->to_slot, chunk);
      if (passes_down) down.record(first_event + chunk);
    }
  }
  for (const std::uint16_t child : slots.to_children) {
    StepStream stream = add_stream(program);
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      stream.wait(first_event + chunk);
      stream.send(child, chunk, transfer);
    }
  }
}

std::vector<TreeSlots> connect_tree(StepBuilder& builder,
                                    const std::vector<std::optional<Place>>& parents) {
  std::vector<TreeSlots> slots(builder.members());
  for (Place child = 0; child < builder.members(); ++child) {
    if (!parents[child]) continue;
    const StepBuilder::Connection up = builder.connect(child, *parents[child]);
    const StepBuilder::Connection down = builder.connect(*parents[child], child);
    slots[child].parent = {.from_slot = up.from_slot, .to_slot = down.to_slot};
    slots[*parents[child]].from_children.push_back(up.to_slot);
    slots[*parents[child]].to_children.push_back(down.from_slot);
  }
  return slots;
}

/// As NCCL's: reduce towards the root, broadcast back, pipelined by chunks.
/// Source: NCCL 2.30.7, src/graph/trees.cc; Sanders, Speck and Traeff 2009.
void add_trees(const CollectiveSteps& spec, StepBuilder& builder) {
  const bool twice = spec.algorithm == StepAlgorithm::double_binary_tree;
  const TransferId transfer =
      builder.add_transfer(spec.size / spec.channels / spec.chunks / (twice ? 2 : 1));
  std::vector<Program> programs(builder.members());
  const auto add = [&](TreeHalf half, Place channel) {
    const std::vector<TreeSlots> slots =
        connect_tree(builder, tree_parents(builder.places(), channel, half));
    for (Place place = 0; place < builder.members(); ++place) {
      add_tree_streams(slots[place], count(spec.chunks), transfer, programs[place]);
    }
  };
  for (Place channel = 0; channel < count(spec.channels); ++channel) {
    add(TreeHalf::first, channel);
    if (twice) add(TreeHalf::second, channel);
  }
  builder.set_programs(std::move(programs));
}

// --- Halving and doubling -----------------------------------------------------------------------

/// Reduce: exchange half of what is left with the rank at distance 1, 2, 4...; gather: the same
/// backwards, so that the most data goes the least far.
/// Source: Thakur, Rabenseifner and Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005.
void add_halving_doubling(const CollectiveSteps& spec, StepBuilder& builder) {
  const auto bits = static_cast<std::uint32_t>(std::countr_zero(builder.members()));
  std::vector<TransferId> halves;  // by bit
  for (std::uint32_t bit = 0; bit < bits; ++bit) {
    halves.push_back(builder.add_transfer(spec.size / spec.channels /
                                          static_cast<double>(std::uint64_t{2} << bit)));
  }
  Program program;
  for (std::uint32_t channel = 0; channel < count(spec.channels); ++channel) {
    StepStream stream = add_stream(program);
    const auto exchange = [&](std::uint32_t bit, std::uint32_t tag) {
      const std::uint32_t relation = channel * bits + bit;
      stream.send(static_cast<std::uint16_t>(2 * relation), tag, halves[bit]);
      stream.recv(static_cast<std::uint16_t>(2 * relation + 1), tag);
    };
    for (std::uint32_t bit = 0; bit < bits; ++bit) {
      std::vector<Place> partners;
      for (Place place = 0; place < builder.members(); ++place) {
        partners.push_back(place ^ (Place{1} << bit));
      }
      builder.connect_all(partners);
      if (spec.kind != CollectiveKind::all_gather) exchange(bit, 0);
    }
    for (std::uint32_t bit = bits; bit-- > 0;) {
      if (spec.kind != CollectiveKind::reduce_scatter) exchange(bit, 1);
    }
  }
  builder.set_program(std::move(program));
}

// --- All-to-all ---------------------------------------------------------------------------------

/// A rank sends to those at distance 1, 2, 3..., dealt out to `channels` streams.
void add_direct(const CollectiveSteps& spec, StepBuilder& builder) {
  const Place ranks = builder.members();
  const TransferId transfer = builder.add_transfer(spec.size / static_cast<double>(ranks));
  Program program;
  program.streams.resize(std::min(count(spec.channels), ranks - 1));
  for (Place distance = 1; distance < ranks; ++distance) {
    std::vector<Place> to;
    for (Place place = 0; place < ranks; ++place) to.push_back((place + distance) % ranks);
    builder.connect_all(to);
    StepStream stream{program.streams[(distance - 1) % program.streams.size()]};
    stream.send(static_cast<std::uint16_t>(2 * (distance - 1)), 0, transfer);
    stream.recv(static_cast<std::uint16_t>(2 * (distance - 1) + 1), 0);
  }
  builder.set_program(std::move(program));
}

/// First a rank hands to each local rank all that is for ranks in that place of their domains, then
/// each sends along its rail what it has gathered, one message per domain.
/// Source: NCCL 2.30.7, PXN level 2 (NCCL_P2P_PXN_LEVEL).
void add_hierarchical(const CollectiveSteps& spec, StepBuilder& builder) {
  const Place local = builder.domain_size(0);
  const Place domains = builder.domains();
  const Bytes block = spec.size / static_cast<double>(builder.members()) / spec.chunks;
  const TransferId inside = builder.add_transfer(block * domains);
  const TransferId outside = builder.add_transfer(block * local);
  const std::uint32_t chunks = count(spec.chunks);
  Program program;
  program.events = domains > 1 ? chunks : 0;
  program.streams.resize(1);  // gathers
  for (Place distance = 1; distance < local; ++distance) {
    std::vector<Place> to;
    for (Place place = 0; place < builder.members(); ++place) {
      const Place first = place - place % local;
      to.push_back(first + (place + distance) % local);
    }
    builder.connect_all(to);
    StepStream stream = add_stream(program);
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      stream.send(static_cast<std::uint16_t>(2 * (distance - 1)), chunk, inside);
    }
  }
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    StepStream gather{program.streams.front()};
    for (Place distance = 1; distance < local; ++distance) {
      gather.recv(static_cast<std::uint16_t>(2 * (distance - 1) + 1), chunk);
    }
    if (domains > 1) gather.record(chunk);
  }
  for (Place distance = 1; distance < domains; ++distance) {
    std::vector<Place> to;
    for (Place place = 0; place < builder.members(); ++place) {
      to.push_back((place + distance * local) % builder.members());
    }
    builder.connect_all(to);
    const Place relation = local - 1 + distance - 1;
    StepStream stream = add_stream(program);
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      stream.wait(chunk);
      stream.send(static_cast<std::uint16_t>(2 * relation), chunk, outside);
      stream.recv(static_cast<std::uint16_t>(2 * relation + 1), chunk);
    }
  }
  builder.set_program(std::move(program));
}

// --- What fits ----------------------------------------------------------------------------------

bool knows(StepAlgorithm algorithm, CollectiveKind kind) {
  switch (algorithm) {
    case StepAlgorithm::ring:
      if (kind == CollectiveKind::broadcast) return true;
      [[fallthrough]];
    case StepAlgorithm::halving_doubling:
      return kind == CollectiveKind::all_reduce || kind == CollectiveKind::all_gather ||
             kind == CollectiveKind::reduce_scatter;
    case StepAlgorithm::tree:
    case StepAlgorithm::double_binary_tree:
    case StepAlgorithm::in_switch: return kind == CollectiveKind::all_reduce;
    case StepAlgorithm::direct:
    case StepAlgorithm::hierarchical: return kind == CollectiveKind::all_to_all;
    case StepAlgorithm::binomial: return kind == CollectiveKind::broadcast;
  }
  return false;
}

}  // namespace

std::optional<std::string> problem_of(const CollectiveSteps& steps, const Cluster& cluster,
                                      std::span<const GpuId> gpus) {
  const std::string_view name = to_text(steps.algorithm);
  if (!knows(steps.algorithm, steps.kind)) {
    return fmt::format("{} has no {} form", to_text(steps.kind), name);
  }
  if (gpus.size() < 2) return fmt::format("{} ranks have nobody to send to", gpus.size());
  if (steps.size <= Bytes{}) return std::string("a collective needs more than 0 bytes");
  if (steps.channels < 1) return fmt::format("channels {} is less than 1", steps.channels);
  if (steps.chunks < 1) return fmt::format("chunks {} is less than 1", steps.chunks);
  const bool whole = steps.algorithm == StepAlgorithm::halving_doubling ||
                     steps.algorithm == StepAlgorithm::direct ||
                     steps.algorithm == StepAlgorithm::binomial;
  if (whole && steps.chunks > 1) return fmt::format("{} sends messages whole: chunks 1", name);
  if (steps.algorithm == StepAlgorithm::halving_doubling && !std::has_single_bit(gpus.size())) {
    return fmt::format("halving_doubling needs a power of two, not {} ranks", gpus.size());
  }
  if (steps.algorithm == StepAlgorithm::binomial || steps.algorithm == StepAlgorithm::in_switch) {
    if (steps.channels > 1) return fmt::format("{} has one way: channels 1", name);
  }
  if (steps.algorithm == StepAlgorithm::in_switch) {
    const std::size_t domains = members_by_domain(cluster, gpus).size();
    if (domains > 1) return fmt::format("in_switch needs one domain, not {}", domains);
  }
  if (steps.algorithm == StepAlgorithm::hierarchical) {
    if (steps.channels > 1) return std::string("hierarchical sends on all rails: channels 1");
    const auto domains = members_by_domain(cluster, gpus);
    for (const auto& domain : domains) {
      if (domain.size() == domains.front().size()) continue;
      return fmt::format("hierarchical needs equally many ranks per domain, not {} and {}",
                         domains.front().size(), domain.size());
    }
  }
  return std::nullopt;
}

Workload idle_network(const Cluster& cluster) {
  Workload network;
  network.category_names = {"communication"};
  network.labels = {"step"};
  network.links.reserve(cluster.links().size());
  for (std::uint32_t i = 0; i < cluster.links().size(); ++i) {
    network.links.push_back(
        {.name = cluster.name_of(LinkId{i}), .capacity = cluster.links()[i].capacity});
  }
  return network;
}

void append_steps(const Cluster& cluster, std::span<const GpuId> gpus, const CollectiveSteps& steps,
                  Workload& network) {
  FLOPCAST_CHECK(!problem_of(steps, cluster, gpus), "the caller asks for the problem first");
  StepBuilder builder(cluster, gpus, steps, network);
  switch (steps.algorithm) {
    case StepAlgorithm::ring:
      if (steps.kind == CollectiveKind::broadcast) return add_broadcast_chain(steps, builder);
      return add_ring(steps, builder);
    case StepAlgorithm::tree:
    case StepAlgorithm::double_binary_tree: return add_trees(steps, builder);
    case StepAlgorithm::halving_doubling: return add_halving_doubling(steps, builder);
    case StepAlgorithm::direct: return add_direct(steps, builder);
    case StepAlgorithm::hierarchical: return add_hierarchical(steps, builder);
    case StepAlgorithm::binomial: return add_broadcast_tree(steps, builder);
    case StepAlgorithm::in_switch: return add_in_switch(steps, cluster, builder);
  }
}

}  // namespace flopcast
