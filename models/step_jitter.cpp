#include "models/step_jitter.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/check.h"
#include "sim/random.h"

namespace flopcast {
namespace {

/// What a draw is for, so that none is used twice.
enum class Draw : std::uint64_t { rank, step, slow, kernel };

std::uint64_t bits_of(const StepJitter& jitter, Draw draw, std::uint64_t step, std::uint64_t rank) {
  const std::uint64_t seed = random_bits(jitter.seed, static_cast<std::uint64_t>(draw));
  return random_bits(random_bits(seed, step), rank);
}

SimTime waiting_of(const RankSummary& rank) {
  SimTime sum = rank.idle;
  for (const CategoryTime& time : rank.by_category) sum += time.waiting;
  return sum;
}

/// Of values in order.
template <class T>
T percentile(const std::vector<T>& sorted, double part) {
  const double place = std::ceil(part * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::max(place, 1.0)) - 1];
}

Seconds mean_of(const std::vector<Seconds>& values) {
  const Seconds sum = std::accumulate(values.begin(), values.end(), Seconds{});
  return sum / static_cast<double>(values.size());
}

/// By rank, in the mean over steps.
std::vector<Seconds> over_steps(std::span<const DisturbedStep> steps,
                                std::vector<SimTime> DisturbedStep::*member) {
  std::vector<Seconds> sums((steps.front().*member).size());
  for (const DisturbedStep& step : steps) {
    for (std::size_t rank = 0; rank < sums.size(); ++rank) {
      sums[rank] += to_seconds((step.*member)[rank]) / static_cast<double>(steps.size());
    }
  }
  return sums;
}

void fill_slowest(JitterReport& report, const std::vector<Seconds>& busy,
                  std::span<const int> stage_of) {
  std::vector<Seconds> sums(1 + static_cast<std::size_t>(std::ranges::max(stage_of)));
  std::vector<double> ranks(sums.size());
  for (std::size_t rank = 0; rank < busy.size(); ++rank) {
    const auto stage = static_cast<std::size_t>(stage_of[rank]);
    sums[stage] += busy[rank];
    ranks[stage] += 1;
  }
  report.slowest_factor = 0;
  for (std::size_t rank = 0; rank < busy.size(); ++rank) {
    const auto stage = static_cast<std::size_t>(stage_of[rank]);
    const double factor = busy[rank] / (sums[stage] / ranks[stage]);
    if (factor <= report.slowest_factor) continue;
    report.slowest_factor = factor;
    report.slowest_rank = static_cast<int>(rank);
  }
}

}  // namespace

void disturb(Workload& workload, const StepJitter& jitter, int step) {
  const auto now = static_cast<std::uint64_t>(step);
  workload.jitter = {.sigma = jitter.kernel_sigma, .seed = bits_of(jitter, Draw::kernel, now, 0)};
  for (std::size_t row = 0; row < workload.ranks.size(); ++row) {
    Rank& rank = workload.ranks[row];
    FLOPCAST_CHECK(rank.count == 1, "every rank is a row");
    rank.draws = jitter.classes > 0 ? row % static_cast<std::size_t>(jitter.classes) : row;
    double time = random_factor(jitter.rank_sigma, bits_of(jitter, Draw::rank, 0, rank.draws)) *
                  random_factor(jitter.step_sigma, bits_of(jitter, Draw::step, now, rank.draws));
    const double chance = random_unit(bits_of(jitter, Draw::slow, now, rank.draws));
    if (chance < jitter.slow_probability) time /= jitter.slow_speed;
    rank.speed /= time;
  }
}

DisturbedStep disturbed_step(const Result& result, std::span<const RankId> row_of) {
  DisturbedStep step{.makespan = result.makespan, .waiting = {}, .busy = {}};
  const std::size_t ranks = row_of.empty() ? result.ranks.size() : row_of.size();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t row = row_of.empty() ? rank : index_of(row_of[rank]);
    step.waiting.push_back(waiting_of(result.ranks[row]));
    step.busy.push_back(result.ranks[row].compute_busy);
  }
  return step;
}

UndisturbedStep undisturbed_step(const Workload& workload, const Result& result) {
  Seconds waiting;
  double ranks = 0;
  for (std::size_t row = 0; row < result.ranks.size(); ++row) {
    const auto count = static_cast<double>(workload.ranks[row].count);
    waiting += count * to_seconds(waiting_of(result.ranks[row]));
    ranks += count;
  }
  return {.step = to_seconds(result.makespan), .waiting = waiting / ranks};
}

JitterReport jitter_report(const StepJitter& jitter, const UndisturbedStep& undisturbed,
                           std::span<const DisturbedStep> steps, std::span<const int> stage_of) {
  FLOPCAST_CHECK(!steps.empty(), "at least one step is simulated");
  std::vector<Seconds> times;
  for (const DisturbedStep& step : steps) times.push_back(to_seconds(step.makespan));
  std::ranges::sort(times);
  const std::vector<Seconds> waiting = over_steps(steps, &DisturbedStep::waiting);
  std::vector<Seconds> sorted = waiting;
  std::ranges::sort(sorted);
  JitterReport report{.steps = static_cast<int>(steps.size()),
                      .undisturbed = undisturbed.step,
                      .mean = mean_of(times),
                      .shortest = times.front(),
                      .median = percentile(times, 0.5),
                      .p99 = percentile(times, 0.99),
                      .longest = times.back(),
                      .undisturbed_waiting = undisturbed.waiting,
                      .waiting_mean = mean_of(waiting),
                      .waiting_p50 = percentile(sorted, 0.5),
                      .waiting_p99 = percentile(sorted, 0.99),
                      .waiting_most = sorted.back(),
                      .evidence = jitter.evidence};
  fill_slowest(report, over_steps(steps, &DisturbedStep::busy), stage_of);
  const Seconds own = waiting[static_cast<std::size_t>(report.slowest_rank)];
  if (report.waiting_mean > Seconds{}) report.slowest_waiting = own / report.waiting_mean;
  return report;
}

std::size_t median_step(std::span<const DisturbedStep> steps) {
  std::vector<std::size_t> order(steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return steps[i].makespan; });
  return percentile(order, 0.5);
}

}  // namespace flopcast
