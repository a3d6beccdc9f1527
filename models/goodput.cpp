#include "models/goodput.h"

#include <cmath>
#include <numeric>

namespace flopcast {

double goodput(const Reliability& reliability, Seconds between_dumps) {
  const Seconds mean = reliability.between_failures;
  const double restart = std::exp(reliability.restart / mean);
  return between_dumps / mean / (restart * std::expm1((between_dumps + reliability.dump) / mean));
}

// ln(1 - x) + x + d/M falls from d/M at x = 0 to minus infinity at 1.
Seconds best_interval(const Reliability& reliability) {
  const double dump = reliability.dump / reliability.between_failures;
  double low = 0;
  double high = 1;
  while (true) {
    const double middle = std::midpoint(low, high);
    if (middle <= low || middle >= high) break;
    (std::log1p(-middle) + middle + dump > 0 ? low : high) = middle;
  }
  return low * reliability.between_failures;
}

Seconds young_interval(const Reliability& reliability) {
  return seconds(std::sqrt(2 * reliability.dump.value * reliability.between_failures.value));
}

Seconds daly_interval(const Reliability& reliability) {
  const double part = reliability.dump / (2 * reliability.between_failures);
  if (part >= 1) return reliability.between_failures;
  return (1 + std::sqrt(part) / 3 + part / 9) * young_interval(reliability) - reliability.dump;
}

GoodputReport goodput_report(const Reliability& reliability, Seconds step) {
  const Seconds best = best_interval(reliability);
  const Seconds interval = reliability.between_dumps.value_or(best);
  return {.reliability = reliability,
          .interval = interval,
          .goodput = goodput(reliability, interval),
          .best_interval = best,
          .best_goodput = goodput(reliability, best),
          .young = young_interval(reliability),
          .daly = daly_interval(reliability),
          .steps = interval / step,
          .dumping = reliability.dump / (interval + reliability.dump)};
}

}  // namespace flopcast
