#pragma once

// What a run leaves behind: where each rank's time went, its memory peak, the use of each link.

#include <cstdint>
#include <vector>

#include "sim/ids.h"
#include "sim/sim_time.h"
#include "sim/units.h"

namespace flopcast {

/// One category's share of one rank's time. For every rank, exactly:
///   compute_busy + sum over categories (exposed + waiting) + idle = makespan.
/// The compute stream (stream 0) stands still where it is in a communication op or waits for an
/// event; then the time is charged to the op that the other stream is in, or the one that this
/// waits for in turn. After its last op it counts as waiting for the rank's other streams, in order
/// of their numbers.
struct CategoryTime {
  SimTime busy;     // on its own streams, whether anyone stood still for it or not: kernels, and
                    // communication from the start of the transfer (recv: from its own arrival if
                    // that is later) to its end, the latency included
  SimTime exposed;  // the compute stream stood still for a transfer under way, or for a kernel of
                    // another stream
  SimTime waiting;  // the compute stream stood still before the transfer started, since another
                    // rank was not there yet
};

/// Memory as it is between instants: an allocation that is released within its instant leaves no
/// trace, whatever the order of the ops.
struct MemoryPeak {
  std::int64_t total = 0;  // bytes
  SimTime at;
  std::vector<std::int64_t> by_pool;    // bytes at that moment, by pool; sums to total
  std::vector<std::int64_t> pool_peak;  // each pool's own peak
};

struct RankSummary {
  SimTime end;                            // its last op, on any stream
  SimTime compute_busy;                   // compute stream in kernels, slowdown included
  SimTime idle;                           // from then to the makespan
  SimTime slowdown;                       // compute time added by interference
  std::vector<CategoryTime> by_category;  // by CategoryId
  std::vector<double> bytes_by_category;  // progress bytes of its collectives and sends
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
  std::vector<RankSummary> ranks;  // by RankId
  std::vector<LinkSummary> links;  // by LinkId
  std::uint64_t events = 0;        // handled by the loop
};

}  // namespace flopcast
