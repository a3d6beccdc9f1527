#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/goodput.h"

// Failures and checkpoints against tests/data/goodput.json: closed forms with their sources, an
// event replay of the same process, published figures.

using namespace flopcast;
using nlohmann::json;

namespace {

json fixture() {
  std::ifstream file(std::string(FLOPCAST_TEST_DATA) + "/goodput.json");
  return json::parse(file);
}

Reliability reliability_of(const json& row) {
  return {.between_failures = seconds(row.at("mtbf_seconds").get<double>()),
          .dump = seconds(row.at("dump_seconds").get<double>()),
          .restart = seconds(row.at("restart_seconds").get<double>())};
}

}  // namespace

TEST_CASE("intervals between checkpoints are those of Young, Daly and the optimum") {
  for (const json golden = fixture(); const json& row : golden.at("optimum")) {
    CAPTURE(row.dump());
    const Reliability job = reliability_of(row);
    const auto expected = [&row](const char* key) {
      return Approx(row.at("expected").at(key).get<double>()).epsilon(1e-9);
    };
    CHECK(young_interval(job).value == expected("young_seconds"));
    CHECK(daly_interval(job).value == expected("daly_higher_order_seconds"));
    CHECK(best_interval(job).value == expected("exact_optimum_seconds"));
    CHECK(goodput(job, best_interval(job)) == expected("goodput_at_exact_optimum"));
    CHECK(goodput(job, young_interval(job)) == expected("goodput_at_young"));
    CHECK(goodput(job, daly_interval(job)) == expected("goodput_at_daly"));
  }
}

TEST_CASE("goodput at any interval") {
  const json golden = fixture();
  for (const json& row : golden.at("at_interval")) {
    CAPTURE(row.dump());
    CHECK(goodput(reliability_of(row), seconds(row.at("work_between_dumps_seconds"))) ==
          Approx(row.at("goodput").get<double>()).epsilon(1e-9));
  }
  for (const json& row : golden.at("replayed").at("cases")) {
    CAPTURE(row.dump());
    const double error = row.at("standard_error");
    CHECK(goodput(reliability_of(row), seconds(row.at("work_between_dumps_seconds"))) ==
          Approx(row.at("goodput_replayed").get<double>()).margin(3 * error));
  }
}

// Llama 3 405B kept more than 90 % of its time with a failure every 3.09 h.
TEST_CASE("a report takes the interval that is asked for, or the best") {
  Reliability job{
      .between_failures = seconds(3.09 * 3600), .dump = seconds(10), .restart = seconds(300)};
  const Seconds step = seconds(5);
  const GoodputReport best = goodput_report(job, step);
  CHECK(best.interval == best.best_interval);
  CHECK(best.goodput == best.best_goodput);
  CHECK(best.goodput > 0.9);
  CHECK(best.steps == Approx(best.interval.value / 5));
  job.between_dumps = seconds(90);
  const GoodputReport often = goodput_report(job, step);
  CHECK(often.interval == seconds(90));
  CHECK(often.goodput < best.goodput);
  CHECK(often.best_goodput == best.best_goodput);
  CHECK(often.dumping == Approx(0.1));
}
