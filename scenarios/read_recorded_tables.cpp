#include "scenarios/read_recorded_tables.h"

namespace flopcast {
namespace {

// One switch and its cables between two nodes.
constexpr Seconds kNetworkHop = nanoseconds(300);

std::vector<std::optional<Seconds>> read_times(const Node& table, std::string_view key,
                                               std::size_t rows) {
  std::vector<std::optional<Seconds>> times(rows);
  const auto node = table.find(key);
  if (!node) return times;
  const std::vector<Node> items = node->items();
  if (items.size() != rows) node->expected("as many times as sizes");
  for (std::size_t i = 0; i < rows; ++i) {
    if (!items[i].is_null()) times[i] = microseconds(items[i].number(1e-3));
  }
  return times;
}

std::optional<CollectiveTiming> timing(std::optional<Seconds> time, Bytes size, double factor) {
  if (!time) return std::nullopt;
  return CollectiveTiming{.time = *time,
                          .algorithm_bandwidth = size / *time,
                          .bus_bandwidth = factor * size / *time,
                          .errors = {}};
}

CollectiveTable read_rows(const Node& node, CollectiveKind kind, GroupShape shape) {
  CollectiveTable table{.kind = kind,
                        .ranks = shape.ranks(),
                        .nodes = shape.nodes,
                        .element_type = {},
                        .rows = {},
                        .file = node.at("id").text(),
                        .notes = {}};
  const Node sizes = node.at("bytes");
  const std::vector<Node> items = sizes.items();
  const auto out = read_times(node, "out_of_place_us", items.size());
  const auto in = read_times(node, "in_place_us", items.size());
  const double factor = bus_factor(kind, shape.ranks());
  table.rows.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Bytes size = bytes(static_cast<double>(items[i].integer(1)));
    table.rows.push_back({.size = size,
                          .count = 0,
                          .out_of_place = timing(out[i], size, factor),
                          .in_place = timing(in[i], size, factor),
                          .line = 0});
  }
  return table;
}

RecordedTable read_recorded(const Node& node) {
  const CollectiveKind kind = node.at("kind").one_of(kCollectiveKinds);
  const GroupShape shape{.ranks_per_node = node.at("ranks_per_node").small_integer(1),
                         .nodes = node.at("nodes").small_integer(1)};
  RecordedTable out{
      .placed = {.table = read_rows(node, kind, shape),
                 .shape = shape,
                 .path = {.domain = node.at("domain").positive_quantity<BytesPerSecond>(),
                          .network = node.at("network").quantity<BytesPerSecond>(),
                          .network_hop = kNetworkHop}},
      .source = node.at("source").text(),
      .gpu = node.at("gpu").text(),
      .cluster = node.at("cluster").text(),
      .machine = node.at("machine").text(),
      .group = node.at("group").text(),
      .generation = node.at("generation").one_of(kGpuGenerations),
      .sharp = false,
      .transport = node.at("transport").one_of(kNetworkTransports),
      .forced = {},
      .fault = {}};
  out.placed.table.notes = {"fabric " + node.at("fabric").text(),
                            "library " + node.at("library").text()};
  if (const auto sharp = node.find("sharp")) out.sharp = sharp->boolean();
  out.placed.path.sharp = out.sharp;
  if (const auto forced = node.find("forced")) out.forced = forced->text();
  if (const auto fault = node.find("fault")) out.fault = fault->text();
  return out;
}

}  // namespace

std::vector<RecordedTable> read_recorded_tables(const Document& document) {
  const Node root = document.root();
  root.at("format").integer(1, 1);
  const std::vector<Node> items = root.at("tables").items();
  std::vector<RecordedTable> tables;
  tables.reserve(items.size());
  for (const Node& item : items) tables.push_back(read_recorded(item));
  root.finish();
  return tables;
}

}  // namespace flopcast
