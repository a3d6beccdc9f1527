#pragma once

// Generated workloads that cannot deadlock, with what is known of each op.

#include <cstdint>
#include <vector>

#include "sim/workload.h"

namespace flopcast::test {

inline constexpr std::size_t kStreams = 4;
inline constexpr std::size_t kCategories = 5;
inline constexpr CategoryId kSent{4};  // of messages, so that their bytes can be told apart

/// What an op of the case is, found by its label.
struct Note {
  Seconds alone{};  // kernel: on this rank, undisturbed; communication: on free links
  double compute_share = 0;
  std::vector<RankId> members{};  // of a communication
};

/// A generated workload and what it must move.
struct Case {
  Workload workload;
  std::vector<Note> notes;      // by LabelId
  std::vector<double> carried;  // bytes, by link
  std::vector<double> moved;    // progress bytes of collectives and sends, by rank
};

Case random_case(std::uint64_t seed);

}  // namespace flopcast::test
