#pragma once

// Measured times of one collective in one group, as nccl-tests and rccl-tests print them. Read by
// scenarios/, fitted here.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/collective_kind.h"
#include "sim/units.h"

namespace flopcast {

/// One of the two measurements of a row.
struct CollectiveTiming {
  Seconds time;
  BytesPerSecond algorithm_bandwidth;  // as printed, two digits behind the point
  BytesPerSecond bus_bandwidth;
  std::optional<std::int64_t> errors;  // nothing where the run did not check
};

struct CollectiveRow {
  Bytes size;              // the whole buffer
  std::int64_t count = 0;  // elements
  std::optional<CollectiveTiming> out_of_place;
  std::optional<CollectiveTiming> in_place;
  int line = 0;  // of the file, from 1
};

struct CollectiveTable {
  CollectiveKind kind{};
  int ranks = 0;
  std::optional<int> nodes;  // where the file tells
  std::string element_type;  // as printed: "float", "bfloat16"
  std::vector<CollectiveRow> rows;
  std::string file;
  std::vector<std::string> notes;  // what was inferred, left out or cut, with its line
};

}  // namespace flopcast
