#include "topology/ring_order.h"

#include "sim/double_binary_tree.h"
#include "topology/group_load.h"

namespace flopcast {

GroupPlaces::GroupPlaces(const Cluster& cluster, std::span<const GpuId> gpus) {
  for (const std::vector<GpuId>& domain : members_by_domain(cluster, gpus)) {
    gpus_.insert(gpus_.end(), domain.begin(), domain.end());
    first_.push_back(static_cast<Place>(gpus_.size()));
  }
}

std::vector<Place> ring_successors(const GroupPlaces& places, Place channel) {
  std::vector<Place> order;
  order.reserve(places.members());
  for (Place domain = 0; domain < places.domains(); ++domain) {
    const Place size = places.domain_size(domain);
    for (Place i = 0; i < size; ++i) {
      const Place step = domain % 2 == 0 ? i : size - 1 - i;
      order.push_back(places.first(domain) + (channel + step) % size);
    }
  }
  std::vector<Place> successors(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    successors[order[i]] = order[(i + 1) % order.size()];
  }
  return successors;
}

std::vector<std::optional<Place>> tree_parents(const GroupPlaces& places, Place channel,
                                               TreeHalf half) {
  std::vector<std::optional<Place>> parents(places.members());
  const auto member = [&](Place domain, Place place) {
    return places.first(domain) + (channel + place) % places.domain_size(domain);
  };
  for (Place domain = 0; domain < places.domains(); ++domain) {
    const DoubleBinaryTree trees =
        double_binary_tree(static_cast<int>(places.domains()), static_cast<int>(domain));
    const std::optional<int> up = half == TreeHalf::first ? trees.first.up : trees.second.up;
    if (up) parents[member(domain, 0)] = member(static_cast<Place>(*up), 0);
    for (Place i = 1; i < places.domain_size(domain); ++i) {
      parents[member(domain, i)] = member(domain, i - 1);
    }
  }
  return parents;
}

std::vector<LinkLoad> route_loads(const Cluster& cluster, GpuId from, GpuId to) {
  std::vector<LinkId> route;
  cluster.append_route(from, to, route);
  std::vector<LinkLoad> loads;
  loads.reserve(route.size());
  for (const LinkId link : route) loads.push_back({link, 1});
  return loads;
}

}  // namespace flopcast
