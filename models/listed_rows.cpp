#include "models/listed_rows.h"

#include <utility>

namespace flopcast {

std::uint32_t ListedRows::ranks() const {
  return static_cast<std::uint32_t>(communicators_.ranks.size());
}

std::uint32_t ListedRows::groups() const {
  return static_cast<std::uint32_t>(communicators_.listed.family.size());
}

std::uint32_t ListedRows::links() const {
  return static_cast<std::uint32_t>(cluster_.links().size());
}

FoldSource::RankFacts ListedRows::rank(std::uint32_t row) const {
  const RankRow& rank = communicators_.ranks[row];
  return {.program = places_[rank.role].program,
          .variant = places_[rank.role].variant,
          .speed = rank.speed,
          .count = rank.count,
          .groups = rank.groups};
}

FoldSource::GroupFacts ListedRows::group(std::uint32_t row) const {
  const ListedGroups& listed = communicators_.listed;
  const std::uint32_t begin = listed.first_member[row];
  const std::uint32_t end = listed.first_member[row + std::size_t{1}];
  std::size_t loads = 0;
  for (const PatternSource& source : kPatternSources) loads += list_of(row, source.list).size();
  return {.members = {listed.members.data() + begin, end - begin},
          .patterns = kLoadPatterns,
          .loads = loads};
}

std::span<const ListedGroups::Load> ListedRows::list_of(std::uint32_t group, LoadKind kind) const {
  const ListedGroups& listed = communicators_.listed;
  const auto place = static_cast<std::size_t>(kind);
  if (place >= listed.kinds) return {};
  const std::size_t list = std::size_t{group} * listed.kinds + place;
  const std::uint32_t begin = listed.first_load[list];
  return std::span(listed.loads).subspan(begin, listed.first_load[list + 1] - begin);
}

void ListedRows::append_loads(std::uint32_t group, std::size_t pattern,
                              std::vector<LinkLoad>& loads) const {
  const ListedGroups& listed = communicators_.listed;
  const PatternSource& source = kPatternSources[pattern];
  const double unit = source.per_sent(communicators_.facts[listed.facts[group]]);
  for (const ListedGroups::Load& load : list_of(group, source.list)) {
    loads.push_back({load.link, listed.weights[load.weight] * unit});
  }
}

FoldSource::LinkFacts ListedRows::link(std::uint32_t row) const {
  return {.capacity = cluster_.links()[row].capacity};
}

std::string ListedRows::rank_name(std::uint32_t row) const {
  const RankRole& role = communicators_.roles[communicators_.ranks[row].role];
  return "pipeline rank " + std::to_string(role.stage) + ", rank " + std::to_string(row);
}

std::string ListedRows::group_name(std::uint32_t row) const {
  const ListedGroups& listed = communicators_.listed;
  const RankId first = listed.members[listed.first_member[row]];
  return listed.names[listed.family[row]] + ", rank " + std::to_string(index_of(first));
}

std::string ListedRows::link_name(std::uint32_t row) const { return cluster_.name_of(LinkId{row}); }

void write_rows(const FoldSource& rows, Workload& workload) {
  workload.ranks.reserve(rows.ranks());
  for (std::uint32_t row = 0; row < rows.ranks(); ++row) {
    const FoldSource::RankFacts rank = rows.rank(row);
    workload.ranks.push_back({.name = rows.rank_name(row),
                              .program = rank.program,
                              .speed = rank.speed,
                              .groups = {rank.groups.begin(), rank.groups.end()},
                              .count = rank.count,
                              .variant = rank.variant,
                              .draws = rank.draws});
  }
  workload.groups.reserve(rows.groups());
  for (std::uint32_t row = 0; row < rows.groups(); ++row) {
    const FoldSource::GroupFacts facts = rows.group(row);
    Group group{.name = rows.group_name(row),
                .members = {facts.members.begin(), facts.members.end()},
                .loads = {},
                .count = facts.count,
                .arrivals = facts.arrivals};
    group.loads.resize(facts.patterns);
    for (std::size_t pattern = 0; pattern < facts.patterns; ++pattern) {
      rows.append_loads(row, pattern, group.loads[pattern]);
    }
    workload.groups.push_back(std::move(group));
  }
  workload.links.reserve(rows.links());
  for (std::uint32_t row = 0; row < rows.links(); ++row) {
    const FoldSource::LinkFacts link = rows.link(row);
    workload.links.push_back(
        {.name = rows.link_name(row), .capacity = link.capacity, .count = link.count});
  }
}

}  // namespace flopcast
