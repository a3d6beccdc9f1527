#pragma once

// Independent simulations side by side on all cores.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "sim/engine.h"

namespace flopcast {

/// Calls `work(i)` once for each i below `count`, on at most `threads` threads (0: one per core).
/// The calls must not share what they change; each writes what belongs to its i. Passes the
/// exception of the smallest i on, whatever ended first.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::size_t threads = 0);

/// Results in the order of the workloads, the same for any number of threads.
std::vector<Result> run_many(std::span<const Workload> workloads, std::size_t threads = 0);

}  // namespace flopcast
