// The engine against SimGrid's max-min model: the same sends over the same links, when each rank
// ends. SimGrid is Casanova, Giersch, Legrand, Quinson and Suter, J. Parallel Distrib. Comput.
// 74(10), 2014.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <simgrid/s4u.hpp>

#include "sim/engine.h"
#include "topology/collective_steps.h"

using namespace flopcast;
namespace s4u = simgrid::s4u;

namespace {

/// Runs a workload of sends and receipts in SimGrid: a host per rank, an actor per stream, a
/// semaphore per message and per event. Latency is slept, so links have none; then all flows on a
/// link have equal shares.
class Replay {
 public:
  explicit Replay(const Workload& workload) : workload_(workload) {
    s4u::Engine::set_config("network/model:CM02");
    s4u::Engine::set_config("network/latency-factor:1");
    s4u::Engine::set_config("network/bandwidth-factor:1");
    s4u::Engine::set_config("network/weight-S:0");
    s4u::Engine::set_config("network/crosstraffic:0");
    zone_ = s4u::create_full_zone("cluster");
    for (std::size_t i = 0; i < workload.links.size(); ++i) {
      links_.push_back(
          zone_->create_link("link" + std::to_string(i), workload.links[i].capacity.value));
      links_.back()->set_latency(0)->seal();
    }
    for (std::size_t i = 0; i < workload.ranks.size(); ++i) {
      hosts_.push_back(zone_->create_host("rank" + std::to_string(i), 1e9));
      hosts_.back()->seal();
    }
    add_routes();
    zone_->seal();
  }

  /// By rank, when its last stream ends.
  std::vector<double> run() {
    ends_.resize(workload_.ranks.size());
    for (std::uint32_t rank = 0; rank < workload_.ranks.size(); ++rank) {
      const Program& program = workload_.programs[index_of(workload_.ranks[rank].program)];
      for (const std::vector<Op>& stream : program.streams) {
        s4u::Actor::create("stream", hosts_[rank], [this, rank, &stream] {
          for (const Op& op : stream) execute(rank, op);
          ends_[rank] = std::max(ends_[rank], s4u::Engine::get_clock());
        });
      }
    }
    s4u::Engine::get_instance()->run();
    return ends_;
  }

 private:
  /// SimGrid 3.32 ignores the rate of a host-to-host message. So the most of a send is the capacity
  /// of a link of its pair alone, which is right where a pair's sends have one rate and take turns.
  std::map<GroupId, double> send_rates() const {
    std::map<GroupId, double> rates;
    for (const Rank& rank : workload_.ranks) {
      for (const auto& stream : workload_.programs[index_of(rank.program)].streams) {
        for (const Op& op : stream) {
          if (op.kind != OpKind::send) continue;
          const double rate = workload_.transfers[op.row].solo_rate.value;
          const auto [entry, added] = rates.emplace(rank.groups[op.slot], rate);
          REQUIRE(entry->second == rate);
        }
      }
    }
    return rates;
  }

  void add_routes() {
    std::set<std::vector<RankId>> known;  // parallel connections share the first one's
    for (const auto& [id, rate] : send_rates()) {
      const Group& pair = workload_.groups[index_of(id)];
      if (!known.insert(pair.members).second) continue;
      s4u::Link* const own = zone_->create_link("pair" + std::to_string(index_of(id)), rate);
      own->set_latency(0)->seal();
      std::vector<s4u::LinkInRoute> route{s4u::LinkInRoute(own)};
      for (const LinkLoad& load : pair.loads.front()) {
        route.emplace_back(links_[index_of(load.link)]);
      }
      zone_->add_route(hosts_[index_of(pair.members[0])]->get_netpoint(),
                       hosts_[index_of(pair.members[1])]->get_netpoint(), nullptr, nullptr, route,
                       false);
    }
  }

  using Key = std::pair<std::uint32_t, std::uint32_t>;
  static s4u::Semaphore& at(std::map<Key, s4u::SemaphorePtr>& table, Key key) {
    s4u::SemaphorePtr& semaphore = table[key];
    if (!semaphore) semaphore = s4u::Semaphore::create(0);
    return *semaphore;
  }

  void execute(std::uint32_t rank, const Op& op) {
    const auto group = [&] { return index_of(workload_.ranks[rank].groups[op.slot]); };
    switch (op.kind) {
      case OpKind::send: {
        const Transfer& transfer = workload_.transfers[op.row];
        const Group& pair = workload_.groups[group()];
        s4u::this_actor::sleep_for(transfer.latency.value);
        s4u::Comm::sendto(hosts_[index_of(pair.members[0])], hosts_[index_of(pair.members[1])],
                          static_cast<std::uint64_t>(std::llround(transfer.size.value)));
        return at(messages_, {group(), op.tag}).release();
      }
      case OpKind::recv: return at(messages_, {group(), op.tag}).acquire();
      case OpKind::record: return at(events_, {rank, op.row}).release();
      case OpKind::wait:
        at(events_, {rank, op.row}).acquire();
        return at(events_, {rank, op.row}).release();  // for the next that waits
      case OpKind::compute:
      case OpKind::collective:
      case OpKind::allocate:
      case OpKind::release: std::abort();  // the replay knows sends only
    }
  }

  const Workload& workload_;
  s4u::Engine engine_{"oracle"};
  s4u::NetZone* zone_ = nullptr;
  std::vector<s4u::Link*> links_;
  std::vector<s4u::Host*> hosts_;
  std::map<Key, s4u::SemaphorePtr> messages_;  // by group and tag
  std::map<Key, s4u::SemaphorePtr> events_;    // by rank and event
  std::vector<double> ends_;
};

/// A process has one SimGrid engine in its life: each replay is a child with a file of its own.
std::vector<double> oracle_ends(const Workload& workload) {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const std::vector<double> ends = Replay(workload).run();
    const bool written = std::fwrite(ends.data(), sizeof(double), ends.size(), file) == ends.size();
    _exit(written && std::fflush(file) == 0 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  std::vector<double> ends(workload.ranks.size());
  std::rewind(file);
  REQUIRE(std::fread(ends.data(), sizeof(double), ends.size(), file) == ends.size());
  std::fclose(file);
  return ends;
}

void compare(const Workload& workload) {
  const Result result = run(workload);
  const std::vector<double> oracle = oracle_ends(workload);
  double worst = 0;
  for (std::size_t rank = 0; rank < oracle.size(); ++rank) {
    worst = std::max(worst, std::abs(to_seconds(result.ranks[rank].end).value / oracle[rank] - 1));
  }
  CHECK(worst < 1e-6);  // both are max-min: what is left is rates of 40 bits and picoseconds
}

Cluster cluster_of(int nodes, int gpus_per_node, FabricKind kind, double oversubscription) {
  System system;
  system.gpu.name = "gpu";
  system.gpu.nvlink = gigabytes_per_second(400);
  system.gpu.pcie = gigabytes_per_second(64);
  system.gpus_per_node = gpus_per_node;
  system.nvlink_domain = gpus_per_node;
  system.nics = gpus_per_node;
  system.nic_bandwidth = gigabytes_per_second(50);
  return Cluster(
      {system, nodes, {.kind = kind, .switch_ports = 16, .oversubscription = oversubscription}});
}

Workload steps_on(const Cluster& cluster, const CollectiveSteps& steps) {
  std::vector<GpuId> gpus;
  for (int gpu = 0; gpu < cluster.gpu_count(); ++gpu) {
    gpus.push_back(GpuId{static_cast<std::uint32_t>(gpu)});
  }
  Workload network = idle_network(cluster);
  REQUIRE_FALSE(problem_of(steps, cluster, gpus));
  append_steps(cluster, gpus, steps, network);
  return network;
}

/// Each rank sends three messages one after another to the next rank, over links drawn at random;
/// sizes, latencies and the most that a rank sends are drawn too.
Workload random_transfers(std::uint32_t seed, std::uint32_t ranks, std::uint32_t links) {
  std::mt19937 random(seed);
  const auto draw = [&](std::uint32_t below) {
    return static_cast<std::uint32_t>(random() % below);
  };
  Workload w;
  for (std::uint32_t i = 0; i < links; ++i) {
    w.links.push_back({.name = "link", .capacity = gigabytes_per_second(10 + draw(90))});
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    Group pair{.name = "pair", .members = {RankId{rank}, RankId{(rank + 1) % ranks}}};
    std::vector<LinkLoad> route;
    for (std::uint32_t link = draw(links / 2); link < links; link += 1 + draw(links / 2)) {
      route.push_back({LinkId{link}, 1});
    }
    pair.loads = {route};
    w.groups.push_back(std::move(pair));
    const BytesPerSecond most = gigabytes_per_second(1 + draw(40));
    ProgramBuilder program(2);
    for (std::uint32_t tag = 0; tag < 3; ++tag) {
      w.transfers.push_back({.latency = microseconds(1 + draw(1000)),
                             .size = megabytes(1 + draw(1000)),
                             .solo_rate = most});
      program.send(0, 0, tag, TransferId{static_cast<std::uint32_t>(w.transfers.size() - 1)}, {},
                   {});
      program.recv(1, 1, tag, {}, {});
    }
    w.programs.push_back(std::move(program).finish());
    w.ranks.push_back({.name = "rank",
                       .program = ProgramId{rank},
                       .groups = {GroupId{rank}, GroupId{(rank + ranks - 1) % ranks}}});
  }
  return w;
}

}  // namespace

TEST_CASE("SimGrid agrees on a ring") {
  const int channels = GENERATE(1, 8);
  compare(steps_on(cluster_of(8, 8, FabricKind::rail_optimized, 1),
                   {.size = gigabytes(8.192), .channels = channels, .latency = microseconds(10)}));
}

TEST_CASE("SimGrid agrees on a double binary tree") {
  compare(steps_on(cluster_of(8, 4, FabricKind::fat_tree, 2),
                   {.algorithm = StepAlgorithm::double_binary_tree,
                    .size = gigabytes(8.192),
                    .channels = 4,
                    .chunks = 16,
                    .latency = microseconds(10)}));
}

TEST_CASE("SimGrid agrees on an all-to-all, all flows at once, 2:1 fat tree") {
  const int gpus_per_node = GENERATE(1, 4);
  const int ranks = GENERATE(64, 128);  // 4,032 flows and 16,256
  CAPTURE(gpus_per_node, ranks);
  compare(steps_on(cluster_of(ranks / gpus_per_node, gpus_per_node, FabricKind::fat_tree, 2),
                   {.kind = CollectiveKind::all_to_all,
                    .algorithm = StepAlgorithm::direct,
                    .size = ranks * megabytes(100),
                    .channels = ranks,
                    .latency = microseconds(10)}));
}

TEST_CASE("SimGrid agrees on random transfers over shared links") {
  const auto seed = GENERATE(range(1U, 21U));
  CAPTURE(seed);
  compare(random_transfers(seed, 40, 12));
}
