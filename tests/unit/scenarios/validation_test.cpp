// Error statistics of measured runs, on trials that are made up.

#include "scenarios/validation.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

namespace flopcast {
namespace {

/// A run of one model on 8 GPUs whose measured step is 1 s unless told otherwise.
Trial run_of(const std::string& file, double predicted, double measured = 1) {
  Trial trial;
  trial.name = file;
  trial.file = "folder/" + file + ".json";
  trial.scenario.job.model.name = "gpt-7b";
  trial.scenario.mark = Mark::test;
  trial.report.gpus = 8;
  ExpectationResult& result = trial.expectations.emplace_back();
  result.metric = *find_metric("step_time");
  result.found = predicted;
  result.expected = measured;
  return trial;
}

const GroupErrors& group(const Validation& validation, const std::string& name) {
  const auto found = std::find_if(validation.groups.begin(), validation.groups.end(),
                                  [&](const GroupErrors& each) { return each.group == name; });
  REQUIRE(found != validation.groups.end());
  return *found;
}

}  // namespace

TEST_CASE("rank correlation is Spearman's") {
  using Values = std::vector<double>;
  CHECK(rank_correlation(Values{1, 2, 3}, Values{10, 100, 1000}) == Approx(1));
  CHECK(rank_correlation(Values{1, 2, 3}, Values{3, 2, 1}) == Approx(-1));
  // 1 - 6 sum d^2 / (n (n^2 - 1)) with d = 1, 1, 0, 0.
  CHECK(rank_correlation(Values{1, 2, 3, 4}, Values{2, 1, 3, 4}) == Approx(0.8));
  // Ties share rank 3.5: 8 / sqrt(10 * 9.5).
  CHECK(rank_correlation(Values{1, 2, 3, 4, 5}, Values{5, 6, 7, 8, 7}) ==
        Approx(8 / std::sqrt(95.0)));
  CHECK(rank_correlation(Values{1, 2, 3}, Values{4, 4, 4}) == 0);  // tells nothing apart
}

TEST_CASE("errors are summed up by group") {
  std::vector<Trial> trials;
  for (const double predicted : {1.02, 0.96, 1.10, 0.70}) {
    trials.push_back(run_of("one", predicted));
  }
  trials.push_back(run_of("two", 1.5));
  trials.back().scenario.mark = Mark::fit;
  const Validation validation = validation_of(trials);
  const GroupErrors& one = group(validation, "source one");
  CHECK(one.runs == 4);
  CHECK(one.median == Approx(0.07));  // of 0.02, 0.04, 0.10 and 0.30
  CHECK(one.mean == Approx(0.115));
  CHECK(one.p90 == Approx(0.30));
  CHECK(one.bias == Approx(-0.01));  // of -0.30, -0.04, 0.02 and 0.10
  CHECK(group(validation, "all").runs == 5);
  CHECK(group(validation, "test").runs == 4);
  CHECK(group(validation, "dense, fit").median == Approx(0.5));
  CHECK(group(validation, "family gpt").runs == 5);
  CHECK(validation.groups.front().group == "all");
}

TEST_CASE("a trial without an answer or a measured value is no run") {
  std::vector<Trial> trials{run_of("one", 1)};
  trials.push_back(run_of("one", 1));
  trials.back().expectations.clear();
  trials.push_back(run_of("one", 1));
  trials.back().expectations.front().expected.reset();
  CHECK(validation_of(trials).runs.size() == 1);
}

TEST_CASE("layouts of one job make a sweep, of which the predicted best is told") {
  std::vector<Trial> trials{run_of("one", 2.0, 1.0), run_of("one", 1.5, 1.2),
                            run_of("one", 3.0, 3.0), run_of("one", 4.0, 4.0)};
  trials.push_back(run_of("one", 9.0, 9.0));  // another job
  trials.back().scenario.job.training.batch.global_batch = 1024;
  const Validation validation = validation_of(trials);
  REQUIRE(validation.sweeps.size() == 1);
  CHECK(validation.sweeps[0].runs == 4);
  CHECK(validation.sweeps[0].rank_correlation == Approx(0.8));
  CHECK(validation.sweeps[0].best_gap == Approx(0.2));  // chosen: 1.2 s; best: 1.0 s
}

}  // namespace flopcast
