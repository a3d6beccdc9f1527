#pragma once

// What failures and checkpoints leave of training time. Failures come at random (exponential) with
// a mean time between them over the whole job; training stands still while a checkpoint is dumped;
// a failure loses the work since the last dump and costs a restart, which may fail as well.
//
//   goodput = t / (M e^(R/M) (e^((t+d)/M) - 1))     t work between dumps, d dump, M mean time
//                                                   between failures, R restart
//   best t: (1 - t/M) e^((t+d)/M) = 1, whatever R
//
// Sources: Daly, Future Generation Computer Systems 22(3), 2006; Young, CACM 17(9), 1974.

#include <optional>

#include "sim/units.h"

namespace flopcast {

struct Reliability {
  Seconds between_failures;                // of the whole job
  Seconds dump;                            // for which a checkpoint stops training
  Seconds restart;                         // detection, replacement, reload
  std::optional<Seconds> between_dumps{};  // work; without: the best
};

/// Useful time over wall time.
double goodput(const Reliability& reliability, Seconds between_dumps);

Seconds best_interval(const Reliability& reliability);
/// sqrt(2 d M).
Seconds young_interval(const Reliability& reliability);
/// sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + d / 18M) - d, and M where d is 2 M or more.
Seconds daly_interval(const Reliability& reliability);

struct GoodputReport {
  Reliability reliability;
  Seconds interval;  // work between dumps
  double goodput = 0;
  Seconds best_interval;
  double best_goodput = 0;
  Seconds young;
  Seconds daly;
  double steps = 0;    // in the interval
  double dumping = 0;  // part of the time without failures
};

GoodputReport goodput_report(const Reliability& reliability, Seconds step);

}  // namespace flopcast
