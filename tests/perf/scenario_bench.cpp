#include "scenario_bench.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <vector>

#include "scenarios/forecast.h"
#include "scenarios/scenario.h"

namespace flopcast::bench {

// Source: proc(5), VmHWM and clear_refs.
double resident_peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::atof(line.c_str() + 6) * 1024;
  }
  return 0;
}

double reset_resident_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
  return resident_peak_bytes();
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void measure_scenario(const std::string& name, bool every_rank) {
  const std::filesystem::path source = FLOPCAST_SOURCE_DIR;
  const Scenario scenario =
      read_scenario(source / "scenarios/examples" / (name + ".json"), {},
                    DataFolders{source / "scenarios/catalogue", source / "calibration/profiles"});
  const FoldMode fold = every_rank ? FoldMode::off : FoldMode::automatic;
  const double before = reset_resident_peak();
  double added = 0;
  StepReport report;
  std::vector<double> taken;
  for (int i = 0; i < (every_rank ? 1 : 5); ++i) {
    const double begin = processor_seconds();
    report = forecast(scenario, nullptr, fold).report;
    taken.push_back(processor_seconds() - begin);
    if (i == 0) added = resident_peak_bytes() - before;
  }
  std::sort(taken.begin(), taken.end());
  fmt::print("scenario {:<34} {:>7} rows {:>9} events {:>9.1f} ms {:>7.1f} MB\n", name,
             report.simulated_ranks, report.events, taken[taken.size() / 2] * 1e3, added / 1e6);
}

}  // namespace flopcast::bench
