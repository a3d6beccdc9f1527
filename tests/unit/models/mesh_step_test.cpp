// Groups of a step in a mesh of GPUs: each alone has the links between its members.

#include <catch2/catch.hpp>

#include "simple_machine.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {

Plan plan_on(NodeLink link) {
  ClusterSpec spec = simple_cluster(8, gigabytes_per_second(448));
  spec.system.node_link = link;
  Job job;
  job.model = small_model(2);
  job.layout.grid = {.tp = 2, .dp = 4};
  job.training.batch = {.sequence = 32, .micro_batch = 1, .global_batch = 4};
  return lower(job, Cluster(spec), simple_profile({}));
}

double rate_of(const Plan& plan, StepGroup group) {
  const GroupFacts& facts = plan.facts.front()[static_cast<std::size_t>(group)];
  return to_gigabytes_per_second(facts.path.domain);
}

}  // namespace

// MI300X: 64 GB/s each way to each of 7 others. Two tensor-parallel ranks have one link, four that
// are data-parallel three.
TEST_CASE("tensor and data parallel groups of a step in a mesh") {
  const Plan mesh = plan_on(NodeLink::nvlink_mesh);
  CHECK(rate_of(mesh, StepGroup::tensor) == Approx(64));
  CHECK(rate_of(mesh, StepGroup::data) == Approx(3 * 64));
  CHECK(rate_of(mesh, StepGroup::world) == Approx(448));
  const Plan joined = plan_on(NodeLink::nvswitch);
  CHECK(rate_of(joined, StepGroup::tensor) == Approx(448));
  CHECK(rate_of(joined, StepGroup::data) == Approx(448));
}
