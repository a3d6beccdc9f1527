#include "kernels/run_plan.h"

#include <catch2/catch.hpp>
#include <filesystem>

namespace flopcast {
namespace {

// Each case takes `pace`, ten equal samples; cases of one row fail.
class Stand : public Measurer {
 public:
  explicit Stand(Seconds pace) : pace_(pace) {}
  std::variant<Measurement, CaseFailure> measure(const MeasurementCase& wanted,
                                                 const StopRule& rule) override {
    seen.push_back(key(wanted));
    budgets.push_back(rule.budget);
    clock_ += pace_;
    if (std::get<MemoryCase>(wanted).rows == 1) return CaseFailure{"one row"};
    return Measurement{.samples = std::vector<Sample>(10, Sample{microseconds(5), {}})};
  }
  bool agree(bool first_rank_says) override { return first_rank_says; }
  Seconds now() override { return clock_; }
  std::string time_of_day() override { return "2026-01-31T12:00:00Z"; }

  std::vector<std::string> seen;
  std::vector<Seconds> budgets;

 private:
  Seconds pace_;
  Seconds clock_ = seconds(1000);  // from any fixed moment
};

std::vector<MeasurementCase> plan_of(std::int64_t cases) {
  std::vector<MeasurementCase> plan;
  for (std::int64_t rows = 2; rows < cases + 2; ++rows) {
    plan.emplace_back(MemoryCase{MemoryOp::copy, rows, 8});
  }
  return plan;
}

struct RecordFile {
  explicit RecordFile(const std::string& name)
      : path(std::filesystem::temp_directory_path() / name) {
    std::filesystem::remove(path);
  }
  ~RecordFile() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

TEST_CASE("time left is shared by the cases left, within bounds") {
  CHECK(case_budget(seconds(100), 50) == seconds(2));
  CHECK(case_budget(seconds(100), 5) == seconds(10));
  CHECK(case_budget(seconds(1), 50) == seconds(0.1));
}

TEST_CASE("a plan is measured in its order, and quick cases leave their time to the others") {
  Stand stand(seconds(1));
  const auto plan = plan_of(4);
  const MeasureSummary summary = run_plan(plan, stand, nullptr, seconds(20), {});
  CHECK(summary.measured == 4);
  CHECK(summary.left == 0);
  CHECK(summary.spent == seconds(4));
  REQUIRE(stand.seen.size() == 4);
  CHECK(stand.seen.front() == key(plan.front()));
  CHECK(stand.seen.back() == key(plan.back()));
  // 20/4, 19/3, 18/2 and 17/1 above the bound.
  CHECK(stand.budgets == std::vector{seconds(5), seconds(19.0 / 3), seconds(9), seconds(10)});
}

TEST_CASE("the budget ends a run, and says how much is left") {
  Stand stand(seconds(3));
  const MeasureSummary summary = run_plan(plan_of(10), stand, nullptr, seconds(7), {});
  CHECK(summary.measured == 3);  // at 0, 3 and 6 s
  CHECK(summary.left == 7);
}

TEST_CASE("a second run goes on where the first ended, and tries failures again") {
  const RecordFile file("flopcast_run_plan.jsonl");
  auto plan = plan_of(5);
  plan.insert(plan.begin(), MemoryCase{MemoryOp::copy, 1, 8});
  Stand first(seconds(3));
  {
    Record record(file.path, {{"gpu", "stand"}});
    const MeasureSummary summary = run_plan(plan, first, &record, seconds(7), {});
    CHECK(summary.failed == 1);
    CHECK(summary.measured == 2);
    CHECK(summary.left == 3);
  }
  Stand second(seconds(1));
  Record record(file.path, {{"gpu", "stand"}});
  const MeasureSummary summary = run_plan(plan, second, &record, seconds(100), {});
  CHECK(summary.resumed == 2);
  CHECK(summary.measured == 3);
  CHECK(summary.failed == 1);
  CHECK(second.seen.size() == 4);
}

TEST_CASE("progress counts up and time left goes down at the pace so far") {
  Stand stand(seconds(2));
  std::vector<MeasureProgress> told;
  run_plan(plan_of(3), stand, nullptr, seconds(100),
           [&](const MeasureProgress& progress) { told.push_back(progress); });
  REQUIRE(told.size() == 4);
  CHECK(told[0].remaining == seconds(100));
  CHECK(told[1].remaining == seconds(4));
  CHECK(told[2].remaining == seconds(2));
  CHECK(told[3].remaining == seconds(0));
  CHECK(told[3].done == 3);
  CHECK(told[3].current.empty());
  for (const MeasureProgress& progress : told) CHECK(progress.total == 3);
}

}  // namespace
}  // namespace flopcast
