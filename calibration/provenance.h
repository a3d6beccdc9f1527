#pragma once

// Where a group of parameters comes from.

#include <string>

#include "sim/evidence.h"

namespace flopcast {

struct Provenance {
  Evidence evidence = Evidence::assumed;
  std::string source;       // file, repository, page; device, driver, method where measured
  double median_error = 0;  // of the fit on rows that were not fitted, relative; 0 if unknown
  double p90_error = 0;
};

}  // namespace flopcast
