#pragma once

// What a run leaves behind: where each rank's time went, its memory peak, the use of each link.

#include <cstdint>
#include <vector>

#include "sim/ids.h"
#include "sim/sim_time.h"
#include "sim/units.h"

namespace flopcast {

/// One category's share of one rank's time.
/// On the compute stream, busy + exposed + waiting over all categories + idle = makespan.
struct CategoryTime {
  SimTime busy;      // compute: time in kernels; communication: from start to end of transfers
  SimTime exposed;   // of communication: time in which the compute stream stood still for a transfer
  SimTime waiting;   // of communication: time in which the compute stream stood still before the
                     // transfer started, since another rank was not there yet
};

struct MemoryPeak {
  std::int64_t total = 0;               // bytes
  SimTime at;
  std::vector<std::int64_t> by_pool;    // bytes at that moment, by pool; sums to total
  std::vector<std::int64_t> pool_peak;  // each pool's own peak
};

struct RankSummary {
  SimTime end;                              // its last op
  SimTime idle;                             // from then to the makespan
  SimTime slowdown;                         // compute time added by interference
  std::vector<CategoryTime> by_category;    // by CategoryId
  std::vector<double> bytes_by_category;    // progress bytes of its collectives and sends
  std::vector<std::uint64_t> ops_by_category;
  MemoryPeak memory;
};

struct LinkSummary {
  Bytes carried;
  SimTime busy;         // time with any load
  double peak_use = 0;  // highest load over capacity, 0..1
};

struct Result {
  SimTime makespan;
  std::vector<RankSummary> ranks;   // by RankId
  std::vector<LinkSummary> links;   // by LinkId
  std::uint64_t events = 0;         // handled by the loop
};

}  // namespace flopcast
