#include "sim/rates.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "generator.h"

using namespace flopcast;
using flopcast::test::Generator;

namespace {

constexpr double kTolerance = 1e-9;  // relative: only rounding differs
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Activity {
  bool running = false;
  double cap = 0;
  std::vector<LinkLoad> loads;
};

struct Case {
  std::vector<Link> links;
  std::vector<Activity> activities;
};

/// Max-min fair rates the slow way: raise all rates together to the next point at which some cap or
/// some link holds an activity, fix that one, begin again. Every step looks at everything.
std::vector<double> reference_rates(const Case& c) {
  std::vector<double> rates(c.activities.size(), 0);
  std::vector<bool> fixed(c.activities.size());
  for (std::size_t a = 0; a < c.activities.size(); ++a) fixed[a] = !c.activities[a].running;
  while (std::find(fixed.begin(), fixed.end(), false) != fixed.end()) {
    double level = kInfinity;
    std::size_t held = c.activities.size();
    for (std::size_t a = 0; a < c.activities.size(); ++a) {
      if (fixed[a]) continue;
      double own = c.activities[a].cap;
      for (const LinkLoad& load : c.activities[a].loads) {
        double room = c.links[index_of(load.link)].capacity.value;
        double weight = 0;
        for (std::size_t b = 0; b < c.activities.size(); ++b) {
          for (const LinkLoad& other : c.activities[b].loads) {
            if (other.link != load.link) continue;
            if (fixed[b]) {
              room -= other.weight * rates[b];
            } else {
              weight += other.weight;
            }
          }
        }
        own = std::min(own, room / weight);
      }
      if (own < level) {
        level = own;
        held = a;
      }
    }
    fixed[held] = true;
    rates[held] = level;
  }
  return rates;
}

Case random_case(Generator& random) {
  Case c;
  const std::size_t links = random.between(1, 9);
  for (std::size_t i = 0; i < links; ++i) {
    // Few distinct values, so that ties are common.
    const double capacity = random.chance(0.5) ? 100 : 10 + std::floor(random.unit() * 200);
    c.links.push_back({.name = "link", .capacity = gigabytes_per_second(capacity)});
  }
  c.activities.resize(random.between(1, 13));
  return c;
}

void choose_activity(Generator& random, const Case& c, Activity& activity) {
  activity.loads.clear();
  for (std::size_t i = 0; i < c.links.size(); ++i) {
    if (!random.chance(2.0 / static_cast<double>(c.links.size()))) continue;
    const double weight = random.chance(0.5) ? 1 : 0.25 + random.unit() * 2;
    activity.loads.push_back({LinkId{static_cast<std::uint32_t>(i)}, weight});
  }
  const double cap = random.chance(0.5) ? 40 : 1 + random.unit() * 150;
  activity.cap = !activity.loads.empty() && random.chance(0.1) ? kInfinity : cap * 1e9;
}

/// Each activity is held by its own cap or by a full link on which none is faster, and no link is
/// above its capacity: this alone makes the rates the max-min fair ones.
void check_certificate(const Case& c, const RateSolver& solver) {
  std::vector<double> load(c.links.size(), 0);
  std::vector<double> fastest(c.links.size(), 0);
  for (std::size_t a = 0; a < c.activities.size(); ++a) {
    if (!c.activities[a].running) continue;
    const double rate = solver.rate(ActivityId{static_cast<std::uint32_t>(a)}).value;
    for (const LinkLoad& on : c.activities[a].loads) {
      load[index_of(on.link)] += on.weight * rate;
      fastest[index_of(on.link)] = std::max(fastest[index_of(on.link)], rate);
    }
  }
  for (std::size_t l = 0; l < c.links.size(); ++l) {
    const double capacity = c.links[l].capacity.value;
    REQUIRE(load[l] <= capacity * (1 + kTolerance));
    REQUIRE(solver.load(LinkId{static_cast<std::uint32_t>(l)}).value ==
            Approx(load[l]).epsilon(kTolerance).margin(1e-3));
  }
  for (std::size_t a = 0; a < c.activities.size(); ++a) {
    const Activity& activity = c.activities[a];
    if (!activity.running) continue;
    const double rate = solver.rate(ActivityId{static_cast<std::uint32_t>(a)}).value;
    const bool held =
        rate >= activity.cap * (1 - kTolerance) ||
        std::any_of(activity.loads.begin(), activity.loads.end(), [&](const LinkLoad& on) {
          const std::size_t l = index_of(on.link);
          const double full = c.links[l].capacity.value;
          return load[l] >= full * (1 - kTolerance) && rate >= fastest[l] * (1 - kTolerance);
        });
    REQUIRE(rate > 0);
    REQUIRE(held);
  }
}

void start_or_stop(Generator& random, Case& c, RateSolver& solver) {
  const std::size_t a = random.below(c.activities.size());
  const ActivityId id{static_cast<std::uint32_t>(a)};
  Activity& activity = c.activities[a];
  if (activity.running) {
    solver.stop(id);
  } else {
    choose_activity(random, c, activity);
    solver.start(id, bytes_per_second(activity.cap), activity.loads);
  }
  activity.running = !activity.running;
}

}  // namespace

TEST_CASE("rates are max-min fair after any sequence of starts and stops") {
  constexpr std::uint64_t kCases = 2500;
  constexpr int kChanges = 12;
  for (std::uint64_t seed = 1; seed <= kCases; ++seed) {
    CAPTURE(seed);
    Generator random(seed);
    Case c = random_case(random);
    RateSolver solver(c.links);
    std::vector<double> before(c.activities.size(), 0);
    for (int change = 0; change < kChanges; ++change) {
      CAPTURE(change);
      const std::size_t batch = random.between(1, 4);
      for (std::size_t i = 0; i < batch; ++i) start_or_stop(random, c, solver);
      solver.solve();
      const std::vector<double> expected = reference_rates(c);
      for (std::size_t a = 0; a < c.activities.size(); ++a) {
        if (!c.activities[a].running) continue;
        const ActivityId id{static_cast<std::uint32_t>(a)};
        const double rate = solver.rate(id).value;
        REQUIRE(rate == Approx(expected[a]).epsilon(kTolerance));
        const auto changed = solver.changed_activities();
        const bool listed = std::find(changed.begin(), changed.end(), id) != changed.end();
        if (rate != before[a]) REQUIRE(listed);
        before[a] = rate;
      }
      check_certificate(c, solver);
    }
  }
}

TEST_CASE("the order of starts within one solve does not matter") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    Generator random(seed);
    Case c = random_case(random);
    for (Activity& activity : c.activities) choose_activity(random, c, activity);
    RateSolver forward(c.links);
    RateSolver backward(c.links);
    const auto count = static_cast<std::uint32_t>(c.activities.size());
    const auto start = [&](RateSolver& solver, std::uint32_t a) {
      solver.start(ActivityId{a}, bytes_per_second(c.activities[a].cap), c.activities[a].loads);
    };
    for (std::uint32_t a = 0; a < count; ++a) start(forward, a);
    for (std::uint32_t a = count; a-- > 0;) start(backward, a);
    forward.solve();
    backward.solve();
    for (std::uint32_t a = 0; a < count; ++a) {
      REQUIRE(forward.rate(ActivityId{a}).value ==
              Approx(backward.rate(ActivityId{a}).value).epsilon(kTolerance));
    }
  }
}

TEST_CASE("a faster link never slows a lone transfer") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    Generator random(seed);
    Case c = random_case(random);
    Activity& lone = c.activities[0];
    choose_activity(random, c, lone);
    const auto rate = [&] {
      RateSolver solver(c.links);
      solver.start(ActivityId{0}, bytes_per_second(lone.cap), lone.loads);
      solver.solve();
      return solver.rate(ActivityId{0});
    };
    const BytesPerSecond before = rate();
    Link& faster = c.links[random.below(c.links.size())];
    faster.capacity = faster.capacity * 1.5;
    REQUIRE(rate() >= before);
  }
}
