#include "topology/analysis.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <boost/graph/visitors.hpp>

namespace flopcast {

namespace {

using HopGraph = boost::compressed_sparse_row_graph<boost::directedS>;

HopGraph hop_graph(const Cluster& cluster) {
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  edges.reserve(cluster.links().size());
  for (const ClusterLink& link : cluster.links()) {
    edges.emplace_back(index_of(link.from), index_of(link.to));
  }
  return {boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(),
          cluster.devices().size()};
}

constexpr int kUnreached = -1;

std::vector<int> distances(const HopGraph& graph, DeviceId from) {
  std::vector<int> hops(boost::num_vertices(graph), kUnreached);
  hops[index_of(from)] = 0;
  const auto recorder = boost::record_distances(hops.data(), boost::on_tree_edge());
  boost::breadth_first_search(graph, index_of(from),
                              boost::visitor(boost::make_bfs_visitor(recorder)));
  return hops;
}

// A flow network: each edge knows its capacity, what is left of it, and its reverse. Capacities are
// whole bytes per second: sums are exact, so that the search ends.
using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using EdgeProperties = boost::property<
    boost::edge_capacity_t, std::int64_t,
    boost::property<boost::edge_residual_capacity_t, std::int64_t,
                    boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>;
using FlowGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS,
                                        boost::no_property, EdgeProperties>;

// One direction. The algorithm wants a reverse edge without capacity beside it.
void add_flow_edge(FlowGraph& graph, std::size_t from, std::size_t to, BytesPerSecond limit) {
  const auto forward = boost::add_edge(from, to, graph).first;
  const auto backward = boost::add_edge(to, from, graph).first;
  const auto capacity = boost::get(boost::edge_capacity, graph);
  const auto reverse = boost::get(boost::edge_reverse, graph);
  capacity[forward] = std::llround(limit.value);
  capacity[backward] = 0;
  reverse[forward] = backward;
  reverse[backward] = forward;
}

std::vector<GpuId> gpu_range(int begin, int end) {
  std::vector<GpuId> gpus;
  for (int gpu = begin; gpu < end; ++gpu) gpus.push_back(GpuId{static_cast<std::uint32_t>(gpu)});
  return gpus;
}

const char* shape_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu: return "box";
    case DeviceKind::node_switch: return "diamond";
    case DeviceKind::host: return "house";
    case DeviceKind::nic: return "component";
    case DeviceKind::leaf_switch: return "ellipse";
    case DeviceKind::spine: return "ellipse";
    case DeviceKind::core: return "doubleoctagon";
    case DeviceKind::backbone: return "doubleoctagon";
    case DeviceKind::memory:
    case DeviceKind::storage: return "cylinder";
  }
  return "box";
}

}  // namespace

std::vector<std::optional<int>> hop_counts(const Cluster& cluster, DeviceId from) {
  std::vector<std::optional<int>> hops;
  for (const int distance : distances(hop_graph(cluster), from)) {
    hops.push_back(distance == kUnreached ? std::nullopt : std::optional(distance));
  }
  return hops;
}

std::optional<int> diameter(const Cluster& cluster) {
  const HopGraph graph = hop_graph(cluster);
  int farthest = 0;
  for (const GpuId gpu : gpu_range(0, cluster.gpu_count())) {
    const std::vector<int> hops = distances(graph, DeviceId{index_of(gpu)});
    const auto gpus = std::span(hops).first(static_cast<std::size_t>(cluster.gpu_count()));
    if (std::ranges::count(gpus, kUnreached) > 0) return std::nullopt;
    farthest = std::max(farthest, std::ranges::max(gpus));
  }
  return farthest;
}

// Goldberg and Tarjan, J. ACM 35(4), 1988: push and relabel.
BytesPerSecond max_flow(const Cluster& cluster, std::span<const GpuId> from,
                        std::span<const GpuId> to) {
  const std::size_t source = cluster.devices().size();
  const std::size_t sink = source + 1;
  FlowGraph graph(sink + 1);
  BytesPerSecond all;  // more than any flow
  for (const ClusterLink& link : cluster.links()) {
    add_flow_edge(graph, index_of(link.from), index_of(link.to), link.capacity);
    all += link.capacity;
  }
  for (const GpuId gpu : from) add_flow_edge(graph, source, index_of(gpu), all);
  for (const GpuId gpu : to) add_flow_edge(graph, index_of(gpu), sink, all);
  const std::int64_t flow = boost::push_relabel_max_flow(graph, source, sink);
  return bytes_per_second(static_cast<double>(flow));
}

BytesPerSecond bisection_bandwidth(const Cluster& cluster) {
  const int per_node = cluster.spec().system.gpus_per_node;
  const int nodes = cluster.spec().nodes;
  const int half = nodes > 1 ? nodes / 2 * per_node : per_node / 2;
  return max_flow(cluster, gpu_range(0, half), gpu_range(half, cluster.gpu_count()));
}

std::vector<LinkClass> link_classes(const Cluster& cluster) {
  std::vector<LinkClass> classes;
  for (const ClusterLink& link : cluster.links()) {
    const auto found = std::ranges::find_if(classes, [&](const LinkClass& c) {
      return c.kind == link.kind && c.capacity == link.capacity;
    });
    if (found == classes.end()) {
      classes.push_back({link.kind, link.capacity, 1});
    } else {
      ++found->links;
    }
  }
  std::ranges::sort(classes, [](const LinkClass& a, const LinkClass& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.capacity > b.capacity;
  });
  return classes;
}

std::string to_dot(const Cluster& cluster) {
  std::string dot = "digraph cluster {\n  rankdir=BT;\n  edge [dir=both];\n";
  const auto out = std::back_inserter(dot);
  for (std::uint32_t id = 0; id < cluster.devices().size(); ++id) {
    fmt::format_to(out, "  d{} [label=\"{}\", shape={}];\n", id, cluster.name_of(DeviceId{id}),
                   shape_of(cluster.devices()[id].kind));
  }
  for (std::size_t i = 0; i < cluster.links().size(); i += 2) {
    const ClusterLink& link = cluster.links()[i];
    fmt::format_to(out, "  d{} -> d{} [label=\"{}\"];\n", index_of(link.from), index_of(link.to),
                   to_text(link.capacity));
  }
  dot += "}\n";
  return dot;
}

}  // namespace flopcast
