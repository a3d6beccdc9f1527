#include "calibration/collective_check.h"

#include <algorithm>

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
constexpr BytesPerSecond kFastestPcie = gigabytes_per_second(128);
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

void bandwidth_causes(const PlacedTable& table, const CheckedTable& checked,
                      std::vector<std::string>& causes) {
  if (table.shape.nodes == 1) {
    causes.emplace_back(
        "no peer-to-peer between GPUs: data goes through host memory or across sockets");
    return;
  }
  if (checked.large < 0.2) {
    causes.emplace_back(
        "TCP sockets instead of RDMA: transport switched off, or its plugin not loaded");
  }
  causes.emplace_back("no GPUDirect RDMA: data is staged in host memory");
  causes.emplace_back("fewer network cards or channels than the node has; a slow pair of nodes");
  if (checked.falls > 0) causes.emplace_back("congestion on the fabric");
}

void add_causes(const PlacedTable& table, CheckedTable& checked) {
  for (const Shortfall shortfall : checked.shortfalls) {
    switch (shortfall) {
      case Shortfall::bandwidth: bandwidth_causes(table, checked, checked.likely_causes); break;
      case Shortfall::latency:
        checked.likely_causes.emplace_back(
            "slow start of small messages: GDRCopy off, receive matching in hardware exhausted, "
            "untuned container or CPU affinity");
        break;
      case Shortfall::erratic:
        checked.likely_causes.emplace_back(
            "a threshold of the message path (eager, device copy), jitter or congestion");
        break;
    }
  }
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

CheckedTable check_table(const PlacedTable& table, const NetworkModel& expected) {
  Profile profile;
  profile.network = expected;
  CheckedTable out;
  out.rows.reserve(table.table.rows.size());
  std::vector<double> small;
  std::vector<double> large;
  for (const CollectiveRow& row : table.table.rows) {
    const auto& timing = row.out_of_place ? row.out_of_place : row.in_place;
    if (!timing) continue;
    const Seconds bound =
        collective_time(profile, table.table.kind, row.size, table.shape, table.path).total();
    out.rows.push_back(
        {.size = row.size, .time = timing->time, .bound = bound, .reached = bound / timing->time});
    if (row.size <= kSmall) small.push_back(out.rows.back().reached);
    if (row.size >= kLarge) large.push_back(out.rows.back().reached);
  }
  if (large.size() > kLargeRows) large.erase(large.begin(), large.end() - kLargeRows);
  out.large = median(std::move(large));
  out.small = median(std::move(small));
  out.falls = count_falls(out.rows);
  const NetworkTransport transport =
      expected.regimes ? expected.regimes->transport : NetworkTransport::verbs;
  const bool all_to_all = table.table.kind == CollectiveKind::all_to_all;
  const bool judges_small = !all_to_all || transport != NetworkTransport::slingshot;
  if (out.large > 0 && out.large < least_large(table, transport)) {
    out.shortfalls.push_back(Shortfall::bandwidth);
  }
  if (judges_small && out.small > 0 && out.small < kSmallReached) {
    out.shortfalls.push_back(Shortfall::latency);
  }
  if (!all_to_all && out.falls >= kFalls) out.shortfalls.push_back(Shortfall::erratic);
  add_causes(table, out);
  return out;
}

}  // namespace flopcast
