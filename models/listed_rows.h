#pragma once

// Every rank, communicator and link of a plan: to be folded without rows of their own, or as rows.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/communicators.h"
#include "sim/fold.h"
#include "topology/cluster.h"

namespace flopcast {

/// The program of a role, and its amounts where other roles share it.
struct ProgramPlace {
  ProgramId program{};
  VariantId variant = kNoVariant;
};

class ListedRows : public FoldSource {
 public:
  /// `places`: by role.
  ListedRows(const Cluster& cluster, const Communicators& communicators,
             std::span<const ProgramPlace> places)
      : cluster_(cluster), communicators_(communicators), places_(places) {}

  std::uint32_t ranks() const override;
  std::uint32_t groups() const override;
  std::uint32_t links() const override;
  RankFacts rank(std::uint32_t row) const override;
  GroupFacts group(std::uint32_t row) const override;
  void append_loads(std::uint32_t group, std::size_t pattern,
                    std::vector<LinkLoad>& loads) const override;
  LinkFacts link(std::uint32_t row) const override;
  std::string rank_name(std::uint32_t row) const override;
  std::string group_name(std::uint32_t row) const override;
  std::string link_name(std::uint32_t row) const override;

 private:
  std::span<const ListedGroups::Load> list_of(std::uint32_t group, LoadKind kind) const;

  const Cluster& cluster_;
  const Communicators& communicators_;
  std::span<const ProgramPlace> places_;
};

/// Appends a row for each.
void write_rows(const FoldSource& rows, Workload& workload);

}  // namespace flopcast
