// Scenarios answered in more than one way, which must not matter.

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/forecast.h"

using namespace flopcast;

namespace {

Scenario example(const std::string& name, const std::vector<Override>& overrides) {
  const std::filesystem::path source(FLOPCAST_SOURCE_DIR);
  return read_scenario(
      source / "scenarios/examples" / (name + ".json"), overrides,
      {.catalogue = source / "scenarios/catalogue", .profiles = source / "calibration/profiles"});
}

}  // namespace

TEST_CASE("jitter: the same seed gives the same steps, another seed others") {
  const auto report = [](const std::string& seed) {
    return *forecast(example("llama3-8b-8-h100", {{"jitter.seed", seed},
                                                  {"jitter.step_sigma", "0.02"},
                                                  {"jitter.kernel_sigma", "0.01"},
                                                  {"jitter.steps", "4"}}))
                .report.jitter;
  };
  const JitterReport first = report("1");
  const JitterReport again = report("1");
  CHECK(first.mean == again.mean);
  CHECK(first.p99 == again.p99);
  CHECK(first.waiting_mean == again.waiting_mean);
  CHECK(first.slowest_rank == again.slowest_rank);
  CHECK(first.mean != report("2").mean);
  CHECK(first.slowdown() > 1);
}

TEST_CASE("jitter: GPUs that draw alike are folded, and nothing else changes") {
  const std::vector<Override> settings{{"jitter.kernel_sigma", "0.02"},
                                       {"jitter.rank_sigma", "0.02"},
                                       {"jitter.steps", "3"},
                                       {"jitter.classes", "2"}};
  const Scenario scenario = example("llama3-8b-8-h100", settings);
  const StepReport folded = forecast(scenario).report;
  const StepReport all = forecast(scenario, nullptr, FoldMode::off).report;
  CHECK(folded.simulated_ranks < all.simulated_ranks);
  CHECK(folded.step.value == Approx(all.step.value).epsilon(1e-9));
  CHECK(folded.jitter->mean.value == Approx(all.jitter->mean.value).epsilon(1e-9));
  CHECK(folded.jitter->waiting_p99.value == Approx(all.jitter->waiting_p99.value).epsilon(1e-6));
}
