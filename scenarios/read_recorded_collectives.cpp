#include "scenarios/read_recorded_collectives.h"

#include <algorithm>
#include <compare>
#include <map>

#include "scenarios/sample_rows.h"
#include "sim/collective_kind.h"

namespace flopcast {
namespace {

struct TableKey {
  CollectiveKind kind{};
  std::int64_t ranks_per_node = 1;
  std::int64_t nodes = 1;

  friend auto operator<=>(const TableKey&, const TableKey&) = default;
};

std::optional<CollectiveKind> kind_of(const SampleRow& row) {
  const std::string op = row.text({"op"});
  for (const CollectiveKind kind : kCollectiveKinds) {
    if (to_text(kind) == op) return kind;
  }
  return std::nullopt;
}

/// Results are checked before they are timed: a row without a failure has no errors.
CollectiveRow row_of(const SampleRow& row, CollectiveKind kind, int ranks) {
  const Bytes size = bytes(row.number({"size_bytes"}));
  const Seconds time = microseconds(row.number({"median_us"}));
  return {.size = size,
          .count = 0,
          .out_of_place = CollectiveTiming{.time = time,
                                           .algorithm_bandwidth = size / time,
                                           .bus_bandwidth = bus_factor(kind, ranks) * size / time,
                                           .errors = 0},
          .in_place = {},
          .line = row.line()};
}

}  // namespace

std::vector<CollectiveTable> read_recorded_collectives(const std::filesystem::path& file) {
  SampleTable samples;
  read_sample_table(file, samples);
  std::map<TableKey, CollectiveTable> tables;
  for (const SampleRow& row : samples.rows) {
    const auto kind = kind_of(row);
    if (!kind || !row.has("ranks_per_node") || row.has("beside_op") || row.has("repeated") ||
        row.has("failure")) {
      continue;
    }
    const TableKey key{*kind, row.count({"ranks_per_node"}), row.count({"nodes"})};
    CollectiveTable& table = tables[key];
    table.kind = *kind;
    table.ranks = static_cast<int>(key.ranks_per_node * key.nodes);
    table.nodes = static_cast<int>(key.nodes);
    table.file = samples.file;
    table.rows.push_back(row_of(row, *kind, table.ranks));
  }
  std::vector<CollectiveTable> out;
  out.reserve(tables.size());
  for (auto& [key, table] : tables) {
    std::ranges::sort(table.rows, {}, &CollectiveRow::size);
    out.push_back(std::move(table));
  }
  return out;
}

}  // namespace flopcast
