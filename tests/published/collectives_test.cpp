// Networks fitted to the public tables of their own machines: all machines at once, which takes a
// minute of two cores. `flopcast validate collectives` prints the same by machine.

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <vector>

#include "calibration/collective_validation.h"
#include "scenarios/read_recorded_tables.h"

namespace flopcast {
namespace {

using Errors = std::vector<double> ClusterErrors::*;

std::vector<double> of_all(const std::vector<ClusterErrors>& clusters, Errors part) {
  std::vector<double> all;
  for (const ClusterErrors& cluster : clusters) {
    all.insert(all.end(), (cluster.*part).begin(), (cluster.*part).end());
  }
  std::ranges::sort(all);
  return all;
}

double at_part(const std::vector<double>& sorted, double part) {
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

TEST_CASE("a fit meets its own tables and shapes that it was not shown") {
  const std::filesystem::path source = FLOPCAST_SOURCE_DIR;
  const auto clusters = validate_fits(
      read_recorded_tables(Document::read(source / "calibration/data/collectives.json")));
  CHECK(clusters.size() == 26);
  const std::vector<double> fitted = of_all(clusters, &ClusterErrors::fitted);
  CHECK(fitted.size() >= 4000);
  CHECK(at_part(fitted, 0.5) <= 0.02);
  CHECK(at_part(fitted, 0.9) <= 0.085);
  const std::vector<double> left_out = of_all(clusters, &ClusterErrors::left_out);
  CHECK(left_out.size() >= 2000);
  CHECK(at_part(left_out, 0.5) <= 0.08);
}

}  // namespace flopcast
