// One table of what the simulator costs on this machine. `perf_table <scale>`: 1 is a smoke run, 20
// takes a minute. Processor time of one core, the median of a few runs (of one, past a second).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bench_workloads.h"
#include "network_bench.h"
#include "scenario_bench.h"
#include "sim/engine.h"
#include "sim/fold.h"
#include "sim/rates.h"

using namespace flopcast;
using namespace flopcast::bench;

namespace {

template <std::size_t Runs = 5, class Work>
double median_seconds(Work work) {
  std::array<double, Runs> taken{};
  for (double& seconds : taken) {
    const double begin = processor_seconds();
    work();
    seconds = processor_seconds() - begin;
  }
  std::sort(taken.begin(), taken.end());
  return taken[taken.size() / 2];
}

void print_machine() {
  std::string model = "unknown";
  std::ifstream facts("/proc/cpuinfo");
  for (std::string line; std::getline(facts, line);) {
    if (line.rfind("model name", 0) == 0) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  }
#ifdef NDEBUG
  constexpr std::string_view kBuild = "optimised";
#else
  constexpr std::string_view kBuild = "with checks";
#endif
  fmt::print("machine: {}, {} cores; {} {}, {}\n", model, std::thread::hardware_concurrency(),
             "compiler", __VERSION__, kBuild);
}

std::uint64_t op_count(const Workload& w) {
  std::uint64_t ops = 0;
  for (const Rank& rank : w.ranks) {
    for (const auto& stream : w.programs[index_of(rank.program)].streams) ops += stream.size();
  }
  return ops;
}

void measure_engine(std::string_view name, const Workload& workload) {
  std::uint64_t events = 0;
  const double took = median_seconds([&] { events = run(workload).events; });
  fmt::print("engine   {:<34} {:>9} events {:>9.1f} ms {:>7.2f} M events/s {:>7.2f} M ops/s\n",
             name, events, took * 1e3, static_cast<double>(events) / took / 1e6,
             static_cast<double>(op_count(workload)) / took / 1e6);
}

void measure_engine_mixes(std::size_t steps) {
  measure_engine("compute", compute_only(steps));
  measure_engine("tensor parallel, 64 ranks", tensor_parallel(64, steps, false));
  measure_engine("tensor parallel, 4096 ranks", tensor_parallel(4096, steps / 20, false));
  measure_engine("the same in step", tensor_parallel(4096, steps / 20, true));
  measure_engine("tensor parallel, 16384 ranks", tensor_parallel(16384, steps / 50, false));
  measure_engine("overlapped, own links", overlapped(steps, false));
  measure_engine("overlapped, shared link", overlapped(steps, true));
  measure_engine("pipeline", pipeline(steps));
}

/// Flows over two links each, in components of `size` flows that fill their links: stops one flow
/// and starts it again.
void measure_rates(std::size_t flows, std::size_t links, std::size_t size, std::size_t changes) {
  const std::vector<Link> rows(links, {.name = "link", .capacity = gigabytes_per_second(50)});
  const std::size_t component_links = std::max<std::size_t>(1, size * links / flows);
  std::vector<std::vector<LinkLoad>> loads;
  for (std::size_t f = 0; f < flows; ++f) {
    const std::size_t first = f / size * component_links;
    const auto link = [&](std::size_t i) {
      return LinkId{static_cast<std::uint32_t>((first + i % component_links) % links)};
    };
    loads.push_back({{link(f), 1}});
    if (component_links > 1) loads.back().push_back({link(f + 1), 1});
  }
  RateSolver solver(rows);
  const auto start = [&](std::size_t f) {
    solver.start(ActivityId{static_cast<std::uint32_t>(f)}, gigabytes_per_second(40), loads[f]);
  };
  for (std::size_t f = 0; f < flows; ++f) start(f);
  const double all = median_seconds([&] { solver.solve(); });
  static_cast<void>(all);
  const double took = median_seconds([&] {
    for (std::size_t i = 0; i < changes; ++i) {
      const std::size_t f = i * 7919 % flows;
      solver.stop(ActivityId{static_cast<std::uint32_t>(f)});
      solver.solve();
      start(f);
      solver.solve();
    }
  });
  fmt::print("rates    {:>6} flows, {:>6} links, components of {:>6} {:>12.2f} us per change\n",
             flows, links, size, took / static_cast<double>(2 * changes) * 1e6);
}

void measure_fold(std::size_t ranks, bool slow_rank) {
  Workload w = training_grid({.ranks = ranks, .micro_batches = 16});
  if (slow_rank) w.ranks[ranks / 2 + 3].speed = 0.9;
  std::size_t classes = 0;
  const double took = median_seconds([&] { classes = fold(w).workload.ranks.size(); });
  const Folding folding = fold(std::move(w));
  const double run_time = median_seconds([&] { run(folding.workload); });
  fmt::print("fold     {:>8} ranks{:<12} {:>6} classes {:>9.1f} ms, run {:>8.2f} ms\n", ranks,
             slow_rank ? ", one slow" : "", classes, took * 1e3, run_time * 1e3);
}

/// One all-reduce of all GPUs, 8 per node, as a fluid over every card.
void measure_collective(std::size_t ranks) {
  const Workload w = one_all_reduce(ranks);
  const double whole = median_seconds([&] { run(w); });
  const Folding folding = fold(w);
  const double folded = median_seconds([&] { run(folding.workload); });
  fmt::print("fluid    all-reduce, {:>6} ranks {:>10.3f} ms, folded run {:>8.3f} ms\n", ranks,
             whole * 1e3, folded * 1e3);
}

template <std::size_t Runs = 5>
void measure_steps(std::string_view name, const Workload& w) {
  std::uint64_t events = 0;
  const double took = median_seconds<Runs>([&] { events = run(w).events; });
  fmt::print("steps    {:<42} {:>9} events {:>10.1f} ms\n", name, events, took * 1e3);
}

/// Collectives as single sends, and a step of fluid ones.
void measure_network(bool smoke) {
  measure_steps("transformer step, 288 ops x 64 ranks", transformer_step(64));
  measure_steps("all-to-all 2:1, 4032 flows at once", step_all_to_all(64));
  measure_steps("ring, 64 ranks", step_ring(64, 1));
  if (smoke) return;
  measure_steps("transformer step, 288 ops x 1024 ranks", transformer_step(1024));
  measure_steps("all-to-all 2:1, 16256 flows at once", step_all_to_all(128));
  measure_steps("ring, 512 ranks", step_ring(512, 1));
  measure_steps<1>("ring, 512 ranks, 8 channels", step_ring(512, 8));
  const Workload large = step_ring(4096, 1);
  const double folded = median_seconds([&] { run(fold(large).workload); });
  fmt::print("steps    {:<42} {:>16} {:>10.1f} ms\n", "ring, 4096 ranks", "folded,", folded * 1e3);
  measure_steps<1>("ring, 4096 ranks", large);
}

void measure_memory(std::size_t ranks) {
  const double before = reset_resident_peak();
  const Workload w = training_grid({.ranks = ranks, .micro_batches = 4});
  const double tables = resident_peak_bytes();
  run(w);
  const double after_run = resident_peak_bytes();
  fmt::print("memory   {:>8} ranks {:>8.0f} bytes per rank of tables, {:>8.0f} of the run\n", ranks,
             (tables - before) / static_cast<double>(ranks),
             (after_run - tables) / static_cast<double>(ranks));
}

}  // namespace

int main(int argc, char** argv) {
  const int scale = argc > 1 ? std::atoi(argv[1]) : 20;
  if (scale < 1) {
    fmt::print(stderr, "usage: perf_table [scale, at least 1]\n");
    return 2;
  }
  const bool smoke = scale == 1;
  print_machine();
  measure_scenario("llama3.1-405b-16k-h100", false);
  measure_memory(smoke ? 1024 : 65536);
  measure_engine_mixes(static_cast<std::size_t>(scale) * 100);
  measure_rates(10000, 5000, 10, smoke ? 10 : 10000);
  measure_rates(10000, 5000, 100, smoke ? 10 : 1000);
  measure_rates(10000, 5000, 10000, smoke ? 1 : 20);
  for (const std::size_t ranks : {1024U, 16384U, 131072U}) {
    if (smoke && ranks > 1024) continue;
    for (const bool slow_rank : {false, true}) measure_fold(ranks, slow_rank);
  }
  for (const std::size_t ranks : {8U, 64U, 512U, 4096U, 16384U}) {
    if (!smoke || ranks <= 512) measure_collective(ranks);
  }
  measure_network(smoke);
  if (!smoke) measure_scenario("llama3.1-405b-16k-h100", true);
}
