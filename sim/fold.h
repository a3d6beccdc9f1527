#pragma once

// Most ranks are copies of one another: folding finds them, so that the engine runs each once.
//
// Ranks, groups and links form a graph: a rank is joined to its groups by the slots through which
// it uses them, a group to its links by pattern and weight.
// Nodes start with what they are by themselves (a rank: what its program does, its speed and, if
// kernels vary, its draws; a link: its capacity), and the coarsest equitable partition
// (partition.h) gives classes whose members have the same number of neighbours of each class. From
// this follows, event by event, that class-mates do the same at the same time: equal ranks arrive
// together, so equal collectives start together; a link of a class carries the same groups of each
// class, so max-min rates, which are unique, are equal too. Nothing is approximated: what a slow
// GPU, a degraded link or an uneven group touches is split off, and nothing else.
//
// One row stands for a class. A group of it gathers one member for each (class, slots) among its
// members. It loads a link row with the sum of all that its class puts on one link of that class.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/ids.h"
#include "sim/workload.h"

namespace flopcast {

struct Folding {
  Workload workload{};  // one row per class, named after its first member, with counts

  // What the rows of the source became.
  std::vector<RankId> rank_class;
  std::vector<GroupId> group_class;  // kNoGroup where no program uses the group
  std::vector<LinkId> link_class;
};

/// Rows that already stand for several are folded further. Programs, kernels and transfers count by
/// what they hold, not by their ids. Aborts (FLOPCAST_CHECK) on ids outside the tables.
/// Memory beside the workload: about 30 bytes per member and load.
Folding fold(Workload workload);

/// Ranks, groups and links wherever they are kept: a million of each are too much as rows of a
/// Workload. The fields are those of the rows.
class FoldSource {
 public:
  struct RankFacts {
    ProgramId program{};
    VariantId variant = kNoVariant;
    double speed = 1;
    std::uint64_t draws = 0;
    std::uint64_t count = 1;
    std::span<const GroupId> groups{};
  };
  struct GroupFacts {
    std::span<const RankId> members{};
    std::size_t patterns = 0;
    std::size_t loads = 0;  // at most, of all patterns
    std::uint32_t arrivals = 0;
    std::uint64_t count = 1;
  };
  struct LinkFacts {
    BytesPerSecond capacity{};
    std::uint64_t count = 1;
  };

  virtual ~FoldSource() = default;
  virtual std::uint32_t ranks() const = 0;
  virtual std::uint32_t groups() const = 0;
  virtual std::uint32_t links() const = 0;
  virtual RankFacts rank(std::uint32_t row) const = 0;
  virtual GroupFacts group(std::uint32_t row) const = 0;
  /// Appended to `loads`.
  virtual void append_loads(std::uint32_t group, std::size_t pattern,
                            std::vector<LinkLoad>& loads) const = 0;
  virtual LinkFacts link(std::uint32_t row) const = 0;
  virtual std::string rank_name(std::uint32_t row) const = 0;
  virtual std::string group_name(std::uint32_t row) const = 0;
  virtual std::string link_name(std::uint32_t row) const = 0;
};

/// The same with the ranks, groups and links of `rows` in place of the workload's own.
Folding fold(Workload workload, const FoldSource& rows);

}  // namespace flopcast
