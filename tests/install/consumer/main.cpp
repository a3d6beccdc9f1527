// Uses the installed library alone: one rank runs two kernels of 3 us and 4 us after another.

#include "build_info.h"

#include <filesystem>
#include <iostream>

#include "sim/engine.h"

int main() {
  using namespace flopcast;
  Workload workload;
  workload.kernels = {{.duration = microseconds(3)}, {.duration = microseconds(4)}};
  workload.stream_names = {"compute"};
  workload.category_names = {"kernels"};
  workload.labels = {"kernel"};
  ProgramBuilder program(1);
  program.compute(kComputeStream, KernelId{0}, CategoryId{0}, LabelId{0});
  program.compute(kComputeStream, KernelId{1}, CategoryId{0}, LabelId{0});
  workload.programs.push_back(std::move(program).finish());
  workload.ranks.push_back({.name = "rank 0", .program = ProgramId{0}});

  const Result result = run(workload);
  std::cout << "flopcast " << kVersion << ": " << to_text(to_seconds(result.makespan)) << '\n';
  const bool has_data = std::filesystem::is_directory(DATA_DIR);
  return has_data && result.makespan == SimTime{7'000'000} ? 0 : 1;
}
