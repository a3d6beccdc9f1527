#pragma once

// Is a measured table what its machine should reach? Each row is held against NCCL's own constants
// for the machine, or closer against what the machine itself took when it was well, and against
// what its links carry at best; a table that stays far below names what usually is the cause, and
// which sign of it was seen.

#include <cstdint>
#include <optional>
#include <span>
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
  Seconds bound;             // what is expected: by the model, or `own`
  bool own = false;          // the bound is what the machine took when it was well
  double reached = 0;        // bound / time
  Seconds links;             // by the bandwidth of the links alone
  double links_reached = 0;  // links / time
};

struct LikelyCause {
  std::string cause;
  std::string because;  // what in the table speaks for it
};

/// The least time that any algorithm needs: the bytes that a GPU or a node must send, over its
/// links without latency. `switch_reduces`: NVLink switches add up what passes (NVLS).
///   Of a GPU into its domain of g: all-reduce 2(g-1)/g S, or S with such a switch; all-gather and
///   reduce-scatter (g-1)/g S, as the rest comes by its own card; all-to-all (g-1)/n S; in one
///   domain broadcast and pair S. Of all cards of one of N nodes: all-reduce 2(N-1)/N S, all-gather
///   and reduce-scatter (N-1)/N S, all-to-all g(n-g)/n S, broadcast and pair S.
Seconds links_time(CollectiveKind kind, Bytes size, GroupShape shape, const NetworkPath& path,
                   bool switch_reduces);

struct CheckedTable {
  std::vector<CheckedRow> rows;
  double large = 0;  // reached by the largest messages, median of up to three rows
  double small = 0;  // by messages up to 32 KB, median; 0 without such rows
  int falls = 0;     // rows that took a third longer than a larger one, or more
  std::vector<Shortfall> shortfalls;
  std::optional<Bytes> low_from;  // the size from which all larger rows are below, for bandwidth
  std::vector<LikelyCause> likely_causes;

  bool healthy() const { return shortfalls.empty(); }
};

/// `well`: tables of the same machine without a fault. The first of the same kind and group shape
/// is the bound between its sizes, the model elsewhere.
CheckedTable check_table(const PlacedTable& table, const NetworkModel& expected,
                         std::span<const PlacedTable> well = {});

}  // namespace flopcast
