#pragma once

// All that the engine needs to know of one run: programs, the ranks that run them, the groups they
// communicate in and the links that the groups load. Plain tables; relations are ids.
//
// A row of ranks, groups or links may stand for `count` equal ones: the engine runs one of them.
// fold() finds what is equal; a builder that knows may write such rows at once. Then a group's
// loads are those of all groups of its row on one link of the link's row.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/ids.h"
#include "sim/program.h"
#include "sim/units.h"

namespace flopcast {

/// Time of a compute op on a GPU of speed 1 that nothing disturbs.
struct Kernel {
  Seconds duration{};
};

/// How kernels vary: every compute op takes exp(sigma z - sigma^2 / 2) times its duration, 1 in the
/// mean, z normal and drawn anew for each op of each sequence of draws (Rank::draws).
struct KernelJitter {
  double sigma = 0;  // of the logarithm
  std::uint64_t seed = 0;
};

/// Cost of one communication that has the network for itself: latency + size / solo_rate.
struct Transfer {
  Seconds latency{};           // first phase; uses no bandwidth
  Bytes size{};                // progress to make in the second phase; 0 means latency alone
  BytesPerSecond solo_rate{};  // most progress per second, whatever the links allow
  std::uint8_t pattern = 0;    // which of the group's load lists it puts on the links
  double compute_share = 0;    // part of the GPU taken from compute ops while it runs, 0..1
};

/// Bytes on a link per byte of progress of the activity.
struct LinkLoad {
  LinkId link{};
  double weight = 0;
};

struct Link {
  std::string name;
  BytesPerSecond capacity{};  // one direction
  std::uint64_t count = 1;
};

/// A communicator. Pattern p of its transfers loads `loads[p]`.
struct Group {
  std::string name;
  std::vector<RankId> members{};  // rows that take part; a send/recv pair is {from, to}
  std::vector<std::vector<LinkLoad>> loads{};  // by Transfer::pattern
  std::uint64_t count = 1;
  // How many arrivals start a collective; 0: one of each distinct member. Where ranks that use the
  // group by different slots are folded into one row, it is listed, and arrives, once for each.
  std::uint32_t arrivals = 0;
};

struct Rank {
  std::string name;
  ProgramId program{};
  double speed = 1;               // compute ops take duration / speed
  std::vector<GroupId> groups{};  // by Op::slot; kNoGroup where the program has no use for it
  std::uint64_t count = 1;
  VariantId variant = kNoVariant;
  std::uint64_t draws = 0;  // sequence of draws for KernelJitter; ranks with the same vary alike
};

struct Workload {
  std::vector<Program> programs;
  std::vector<Variant> variants{};
  std::vector<Kernel> kernels;
  std::vector<Transfer> transfers;
  std::vector<Link> links;
  std::vector<Group> groups;
  std::vector<Rank> ranks;
  KernelJitter jitter{};

  std::vector<std::string> stream_names;    // by stream number
  std::vector<std::string> category_names;  // by CategoryId, time categories
  std::vector<std::string> pool_names;      // by CategoryId of allocate/release
  std::vector<std::string> labels;          // by LabelId
};

/// The stream whose busy and stalled time make up a rank's step: stream 0.
inline constexpr std::size_t kComputeStream = 0;

}  // namespace flopcast
