#include <catch2/catch.hpp>

#include "llama_8b.h"
#include "simple_machine.h"

// An optimizer on the host: what leaves the GPU's memory and what the copies and the processors
// cost, worked out by hand.

using namespace flopcast;
using namespace flopcast::test;

namespace {

constexpr double kPcie = 10e9;     // bytes per second, of which 0.77 are reached
constexpr double kMemory = 200e9;  // of which Adam reaches 0.45
constexpr double kDrives = 5e9;    // of which 0.8 are reached
constexpr double kStart = 10e-6;   // of a copy or a step of the processors

Step run_beside_host(Job job, const OptimizerOffload& offload, int gpus_per_host_link = 1) {
  ClusterSpec spec = simple_cluster(job.layout.grid.world(), gigabytes_per_second(100));
  spec.host_copies = true;
  spec.system.gpu.pcie = bytes_per_second(kPcie);
  spec.system.gpus_per_host_link = gpus_per_host_link;
  spec.system.host_memory = bytes_per_second(kMemory);
  spec.system.storage = bytes_per_second(kDrives);
  job.training.offload = offload;
  const Cluster cluster(spec);
  Step step{
      .plan = lower(job, cluster, simple_profile({.optimizer = {}})), .result = {}, .timeline = {}};
  step.result = run(step.plan.workload, &step.timeline);
  return step;
}

double peak(const Step& step, MemoryPool pool) { return static_cast<double>(step.peak(0, pool)); }

double duration(const Step& step) { return to_seconds(step.result.makespan).value; }

double plain_duration(const Job& job) {
  return duration(run_step(job, {.optimizer = {}}, gigabytes_per_second(100)));
}

}  // namespace

TEST_CASE("the states that are on the host are not on the GPU") {
  const Job job = llama_8b(2);
  const Step plain = run_step(job);
  // Twelve bytes of each parameter of the rank's half.
  CHECK(peak(plain, MemoryPool::optimizer) == 12 * kLlama8B / 2);
  CHECK(peak(run_beside_host(job, {}), MemoryPool::optimizer) == 0);
  CHECK(peak(run_beside_host(job, {.fraction = 0.25}), MemoryPool::optimizer) ==
        0.75 * 12 * kLlama8B / 2);
  CHECK(peak(run_beside_host(job, {}), MemoryPool::gradients) ==
        peak(plain, MemoryPool::gradients));
}

TEST_CASE("without overlap the copies and the step of the host follow each other") {
  const Job job = llama_8b(1);
  const double added = duration(run_beside_host(job, {.overlap = false})) - plain_duration(job);
  // fp32 gradients down, 2 x 12 + 4 + 2 bytes of the host's memory, 16-bit parameters up.
  const double expected =
      kLlama8B * (4 / (0.77 * kPcie) + 30 / (0.45 * kMemory) + 2 / (0.77 * kPcie)) + 3 * kStart;
  CHECK(added == Approx(expected).epsilon(1e-6));
}

TEST_CASE("in pieces the slowest part decides") {
  const Job job = llama_8b(1);
  const double added = duration(run_beside_host(job, {})) - plain_duration(job);
  // Sixteen pieces; copying gradients takes longest, the others add one piece each at the end.
  const double down = kLlama8B * 4 / (0.77 * kPcie);
  const double tail = kLlama8B / 16 * (30 / (0.45 * kMemory) + 2 / (0.77 * kPcie));
  CHECK(added == Approx(down + tail + 18 * kStart).epsilon(0.02));
}

TEST_CASE("GPUs behind one switch share its link, all of a node the memory of the host") {
  const Job job = llama_8b(2);
  const double alone = duration(run_beside_host(job, {.overlap = false}));
  const double shared = duration(run_beside_host(job, {.overlap = false}, 2));
  // Each rank's half is copied at half the rate; the step shares the memory either way.
  const double copies = kLlama8B / 2 * (4 + 2) / (0.77 * kPcie);
  CHECK(shared - alone == Approx(copies).epsilon(1e-6));
  const double plain = plain_duration(job);
  CHECK(alone - plain ==
        Approx(copies + kLlama8B / 2 * 30 / (0.45 * kMemory / 2) + 3 * kStart).epsilon(1e-6));
}

TEST_CASE("states on drives are read before a step and written after it") {
  const Job job = llama_8b(1);
  const double host = duration(run_beside_host(job, {.overlap = false}));
  const double drives = duration(run_beside_host(job, {.to_drives = true, .overlap = false}));
  // Reading runs beside the copy of the gradients and takes longer (12 / 4 against 4 / 7.7),
  // writing beside that of the parameters.
  const double expected = kLlama8B * (2 * 12 / (0.8 * kDrives) - 6 / (0.77 * kPcie));
  CHECK(drives - host == Approx(expected).epsilon(1e-5));
}

TEST_CASE("what a job on the host cannot do yet is said") {
  Job job = llama_8b(2);
  job.training.offload = OptimizerOffload{};
  CHECK_FALSE(lowering_gap(job));
  job.layout.zero = 3;
  job.training.framework = *framework_preset("fsdp2");
  CHECK(lowering_gap(job));
}
