#include "calibration/collective_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace flopcast {
namespace {

// What a healthy machine reaches at least, set below the healthy public tables
// (calibration/data/collectives.json). All-to-all sends one message to each peer, which Slingshot
// does at a third of its rate, and whose times fall where messages cross a threshold.
constexpr double kLargeReached = 0.5;
constexpr double kLargeSlingshot = 0.42;
constexpr double kLargeSlingshotAllToAll = 0.25;
constexpr double kLargeThroughHost = 0.15;  // PCIe boxes whose GPUs share roots and sockets
constexpr double kSmallReached = 0.22;
// Held against its own curve: the same system measured again differs by 1 % in the median and 8 %
// in one of ten rows up to 4 KB (NCCL 2.29, B200 to H200), sister nodes by less.
constexpr double kOwnReached = 0.75;
constexpr int kFalls = 4;
constexpr double kFall = 4.0 / 3;
constexpr Bytes kSmall = kibibytes(32);
constexpr Bytes kLarge = mebibytes(16);
constexpr std::size_t kLargeRows = 3;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double least_large(const PlacedTable& table, NetworkTransport transport) {
  if (table.shape.nodes == 1) {
    return table.path.domain <= kFastestPcie && table.shape.ranks() > 2 ? kLargeThroughHost
                                                                        : kLargeReached;
  }
  if (transport != NetworkTransport::slingshot) return kLargeReached;
  return table.table.kind == CollectiveKind::all_to_all ? kLargeSlingshotAllToAll : kLargeSlingshot;
}

int count_falls(const std::vector<CheckedRow>& rows) {
  int falls = 0;
  Seconds least = seconds(1e30);
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (row->time > kFall * least) ++falls;
    least = std::min(least, row->time);
  }
  return falls;
}

// Levels of faults. Sockets: the faulty tables of calibration/data/collectives.json. No GPUDirect:
// topology/system.h. Cards out of place: google/dranet (22 and 11 of 59 GB/s), NVIDIA/nccl issue
// 2409 (ACS and IOMMU: 13 and 30 of 48). Slow pairs of nodes: the two of cl00 there.
constexpr double kSocketLevel = 0.17;  // 0.03 to 0.16: 3 to 8 GB/s of a node
constexpr double kStagedLeast = 0.15;  // 0.28 to 0.40 without GPUDirect RDMA, and what is near
constexpr double kStagedMost = 0.5;

void bandwidth_causes(const PlacedTable& table, CheckedTable& checked) {
  const CheckedRow& last = checked.rows.back();
  const std::string level = fmt::format(
      "{:.0f} % of what the links carry, {:.0f} % of the model{}", 100 * last.links_reached,
      100 * checked.large,
      checked.low_from ? fmt::format(", low from {} on", to_text(*checked.low_from)) : "");
  const auto add = [&](std::string cause, const std::string& sign) {
    checked.likely_causes.push_back({std::move(cause), level + sign});
  };
  if (table.shape.nodes == 1) {
    add("no peer-to-peer between GPUs: data goes through host memory or across sockets",
        "; one node");
    return;
  }
  const double share = checked.large * table.shape.ranks_per_node;
  if (checked.large < kSocketLevel) {
    add("TCP sockets instead of RDMA: transport switched off, or its plugin not loaded",
        "; sockets reached 3 to 16 %");
  }
  if (checked.large >= kStagedLeast && checked.large <= kStagedMost) {
    add("no GPUDirect RDMA: data is staged in host memory", "; staging reached 28 to 40 %");
  }
  if (table.shape.ranks_per_node > 1 && share < table.shape.ranks_per_node / 2.0) {
    add(fmt::format("fewer network cards or channels than the node has: as if {:.0f} of {}",
                    std::max(1.0, std::round(share)), table.shape.ranks_per_node),
        "; a part of the cards gives that part of the rate");
  }
  add("network cards behind another PCIe switch or socket than their GPUs, PCIe ACS or IOMMU in "
      "the way",
      "; such nodes reached 19 to 61 %");
  if (table.shape.nodes == 2) {
    add("a slow pair of nodes, a cable at half rate", "; such pairs reached 37 to 77 %");
  }
  if (checked.falls > 0) {
    add("congestion on the fabric",
        fmt::format("; {} rows took a third longer than a larger one", checked.falls));
  }
}

void add_causes(const PlacedTable& table, CheckedTable& checked) {
  for (const Shortfall shortfall : checked.shortfalls) {
    switch (shortfall) {
      case Shortfall::bandwidth: bandwidth_causes(table, checked); break;
      case Shortfall::latency:
        checked.likely_causes.push_back(
            {"slow start of small messages: GDRCopy off, receive matching in hardware exhausted, "
             "untuned container or CPU affinity",
             fmt::format("up to {} {:.1f} times the model's time, the smallest {:.0f} us",
                         to_text(kSmall), 1 / checked.small,
                         to_microseconds(checked.rows.front().time))});
        break;
      case Shortfall::erratic:
        checked.likely_causes.push_back(
            {"a threshold of the message path (eager, device copy), jitter or congestion",
             fmt::format("{} rows took a third longer than a larger one", checked.falls)});
        break;
    }
  }
}

// Of the rows that are judged by their bandwidth, from the smallest after which none is healthy.
std::optional<Bytes> first_low(const std::vector<CheckedRow>& rows, double least) {
  std::optional<Bytes> from;
  for (auto row = rows.rbegin(); row != rows.rend() && row->reached < least; ++row) {
    from = row->size;
  }
  return from;
}

/// The model, and between its sizes what the machine took when it was well.
struct Bounds {
  Profile model;
  std::optional<Profile> own;
  Bytes smallest;
  Bytes largest;

  bool knows(Bytes size) const { return own && size >= smallest && size <= largest; }
};

Bounds bounds_of(const PlacedTable& table, const NetworkModel& expected,
                 std::span<const PlacedTable> well) {
  Bounds bounds;
  bounds.model.network = expected;
  for (const PlacedTable& other : well) {
    if (other.table.kind != table.table.kind || other.shape != table.shape) continue;
    CollectiveCurve curve = measured_curve(other, clean_points(other.table));
    if (curve.sizes.empty()) continue;
    // On the wires of the table, whatever the machine lost since.
    curve.domain = table.path.domain;
    curve.network = table.path.network;
    curve.sharp = table.path.sharp;
    bounds.smallest = curve.sizes.front();
    bounds.largest = curve.sizes.back();
    bounds.own = bounds.model;
    bounds.own->curves.push_back(std::move(curve));
    break;
  }
  return bounds;
}

std::vector<CheckedRow> checked_rows(const PlacedTable& table, const NetworkModel& expected,
                                     std::span<const PlacedTable> well) {
  const bool reduces = expected.regimes && table.shape.ranks_per_node > 2 &&
                       table.path.domain > kFastestPcie &&
                       expected.regimes->generation >= GpuGeneration::hopper;
  const Bounds bounds = bounds_of(table, expected, well);
  const CollectiveKind kind = table.table.kind;
  std::vector<CheckedRow> rows;
  rows.reserve(table.table.rows.size());
  for (const CollectiveRow& row : table.table.rows) {
    const auto& timing = row.out_of_place ? row.out_of_place : row.in_place;
    if (!timing) continue;
    const bool own = bounds.knows(row.size);
    const Seconds bound =
        collective_time(own ? *bounds.own : bounds.model, kind, row.size, table.shape, table.path)
            .total();
    const Seconds links = links_time(kind, row.size, table.shape, table.path, reduces);
    rows.push_back({.size = row.size,
                    .time = timing->time,
                    .bound = bound,
                    .own = own,
                    .reached = bound / timing->time,
                    .links = links,
                    .links_reached = links / timing->time});
  }
  return rows;
}

/// What some rows reach, and whether all of them were held against the machine's own times.
struct Reached {
  double median = 0;
  bool own = false;
};

template <class Sizes>
std::vector<CheckedRow> rows_of(const std::vector<CheckedRow>& rows, Sizes fits) {
  std::vector<CheckedRow> out;
  std::ranges::copy_if(rows, std::back_inserter(out), fits, &CheckedRow::size);
  return out;
}

Reached reached_by(std::span<const CheckedRow> rows) {
  std::vector<double> reached;
  reached.reserve(rows.size());
  for (const CheckedRow& row : rows) reached.push_back(row.reached);
  return {.median = median(std::move(reached)), .own = std::ranges::all_of(rows, &CheckedRow::own)};
}

Reached reached_by_small(const std::vector<CheckedRow>& rows) {
  return reached_by(rows_of(rows, [](Bytes size) { return size <= kSmall; }));
}

Reached reached_by_large(const std::vector<CheckedRow>& rows) {
  const std::vector<CheckedRow> large = rows_of(rows, [](Bytes size) { return size >= kLarge; });
  return reached_by(std::span(large).last(std::min(large.size(), kLargeRows)));
}

}  // namespace

std::string_view to_text(Shortfall shortfall) {
  switch (shortfall) {
    case Shortfall::bandwidth: return "bandwidth";
    case Shortfall::latency: return "latency";
    case Shortfall::erratic: return "erratic";
  }
  return {};
}

Seconds links_time(CollectiveKind kind, Bytes size, GroupShape shape, const NetworkPath& path,
                   bool switch_reduces) {
  const double g = shape.ranks_per_node;
  const double nodes = shape.nodes;
  const double n = shape.ranks();
  double inside = 0;   // parts of the buffer that a GPU sends into its domain
  double outside = 0;  // that a node sends
  switch (kind) {
    case CollectiveKind::all_reduce:
      inside = switch_reduces ? 1 : 2 * (g - 1) / g;
      outside = path.sharp ? 1 : 2 * (nodes - 1) / nodes;
      break;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      inside = (g - 1) / g;
      outside = (nodes - 1) / nodes;
      break;
    case CollectiveKind::all_to_all:
      inside = (g - 1) / n;
      outside = g * (n - g) / n;
      break;
    case CollectiveKind::broadcast:
    case CollectiveKind::send_recv:
      inside = shape.nodes > 1 ? 0 : 1;
      outside = 1;
      break;
  }
  const Seconds domain = g > 1 ? inside * size / path.domain : Seconds{};
  return shape.nodes > 1 ? std::max(domain, outside * size / path.network) : domain;
}

CheckedTable check_table(const PlacedTable& table, const NetworkModel& expected,
                         std::span<const PlacedTable> well) {
  CheckedTable out;
  out.rows = checked_rows(table, expected, well);
  const Reached large = reached_by_large(out.rows);
  const Reached small = reached_by_small(out.rows);
  out.large = large.median;
  out.small = small.median;
  out.falls = count_falls(out.rows);
  const auto& regimes = expected.regimes;
  const NetworkTransport transport = regimes ? regimes->transport : NetworkTransport::verbs;
  const bool all_to_all = table.table.kind == CollectiveKind::all_to_all;
  const bool judges_small = small.own || !all_to_all || transport != NetworkTransport::slingshot;
  const double least = large.own ? kOwnReached : least_large(table, transport);
  if (large.median > 0 && large.median < least) {
    out.shortfalls.push_back(Shortfall::bandwidth);
    out.low_from = first_low(out.rows, least);
  }
  const double least_small = small.own ? kOwnReached : kSmallReached;
  if (judges_small && small.median > 0 && small.median < least_small) {
    out.shortfalls.push_back(Shortfall::latency);
  }
  if (!all_to_all && out.falls >= kFalls) out.shortfalls.push_back(Shortfall::erratic);
  add_causes(table, out);
  return out;
}

}  // namespace flopcast
