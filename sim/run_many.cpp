#include "sim/run_many.h"

#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <exception>

namespace flopcast {

void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::size_t threads) {
  std::vector<std::exception_ptr> errors(count);
  const int cores = tbb::this_task_arena::max_concurrency();
  const int width = threads == 0 ? cores : std::min(cores, static_cast<int>(threads));
  tbb::task_arena(width).execute([&] {
    // Runs differ in length: each is a task of its own.
    tbb::parallel_for(
        std::size_t{0}, count,
        [&](std::size_t i) {
          try {
            work(i);
          } catch (...) {
            errors[i] = std::current_exception();
          }
        },
        tbb::simple_partitioner());
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

std::vector<Result> run_many(std::span<const Workload> workloads, std::size_t threads) {
  std::vector<Result> results(workloads.size());
  for_each_parallel(
      workloads.size(), [&](std::size_t i) { results[i] = run(workloads[i]); }, threads);
  return results;
}

}  // namespace flopcast
