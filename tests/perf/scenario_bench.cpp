#include "scenario_bench.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <vector>

#include "scenarios/forecast.h"
#include "scenarios/scenario.h"

namespace flopcast::bench {

double resident_peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void measure_scenario(const std::string& name, bool every_rank) {
  const std::filesystem::path source = FLOPCAST_SOURCE_DIR;
  const Scenario scenario =
      read_scenario(source / "scenarios/examples" / (name + ".json"), {},
                    DataFolders{source / "scenarios/catalogue", source / "calibration/profiles"});
  const FoldMode fold = every_rank ? FoldMode::off : FoldMode::automatic;
  const double before = resident_peak_bytes();
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
