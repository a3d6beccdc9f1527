#pragma once

// Is a measured table what its machine should reach? Each row is held against NCCL's own
// constants for the machine; a table that stays far below names what usually is the cause.

#include <string>
#include <string_view>
#include <vector>

#include "calibration/collective_fit.h"

namespace flopcast {

enum class Shortfall : std::uint8_t {
  bandwidth,  // large messages
  latency,    // small messages
  erratic,    // times that fall as messages grow
};

std::string_view to_text(Shortfall shortfall);

struct CheckedRow {
  Bytes size;
  Seconds time;
  Seconds bound;       // by the model
  double reached = 0;  // bound / time
};

struct CheckedTable {
  std::vector<CheckedRow> rows;
  double large = 0;  // reached by the largest messages, median of up to three rows
  double small = 0;  // by messages up to 32 KB, median; 0 without such rows
  int falls = 0;     // rows that took a third longer than a larger one, or more
  std::vector<Shortfall> shortfalls;
  std::vector<std::string> likely_causes;

  bool healthy() const { return shortfalls.empty(); }
};

CheckedTable check_table(const PlacedTable& table, const NetworkModel& expected);

}  // namespace flopcast
