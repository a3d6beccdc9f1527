#include "topology/ecmp.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "sim/check.h"
#include "sim/random.h"

namespace flopcast {

namespace {

// Probability that no cable gets more than `most`. Row b of the recursion: j flows on b cables, of
// which the last gets i with chance binomial(j, i, 1/b).
double chance_of_at_most(int most, int flows, int cables) {
  const auto size = static_cast<std::size_t>(flows) + 1;
  std::vector<double> within(size, 0.0);
  for (int j = 0; j <= std::min(flows, most); ++j) within[static_cast<std::size_t>(j)] = 1;
  std::vector<double> next(size);
  for (int b = 2; b <= cables; ++b) {
    const double hit = 1.0 / b;
    for (int j = 0; j <= flows; ++j) {
      double chance = std::exp(j * std::log1p(-hit));  // of i = 0
      double sum = 0;
      for (int i = 0; i <= std::min(j, most); ++i) {
        sum += chance * within[static_cast<std::size_t>(j - i)];
        chance *= (j - i) / (i + 1.0) * hit / (1 - hit);
      }
      next[static_cast<std::size_t>(j)] = sum;
    }
    within.swap(next);
  }
  return within.back();
}

}  // namespace

double expected_max_load(int flows, int cables) {
  FLOPCAST_CHECK(flows >= 1 && cables >= 1, "a trunk has flows and cables");
  double expected = 0;  // sum over k of the chance of more than k
  for (int most = 0; most < flows; ++most) {
    const double more = 1 - chance_of_at_most(most, flows, cables);
    expected += more;
    if (more < 1e-12) break;
  }
  return expected;
}

int max_load(int flows, int cables, std::uint64_t seed, std::uint64_t trunk) {
  FLOPCAST_CHECK(flows >= 1 && cables >= 1, "a trunk has flows and cables");
  std::uint64_t state = mixed(seed + kGoldenGamma) + trunk;
  std::vector<int> loads(static_cast<std::size_t>(cables));
  for (int flow = 0; flow < flows; ++flow) {
    state += kGoldenGamma;
    ++loads[mixed(state) % static_cast<std::uint64_t>(cables)];
  }
  return std::ranges::max(loads);
}

}  // namespace flopcast
