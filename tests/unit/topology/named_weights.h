#pragma once

// Loads of a group by the names of the links.

#include <map>
#include <span>
#include <string>

#include "topology/group_load.h"

using Weights = std::map<std::string, double>;

inline Weights weights(const flopcast::Cluster& cluster, std::span<const flopcast::GpuId> members,
                       flopcast::LoadPattern pattern) {
  Weights result;
  for (const flopcast::LinkLoad& load : flopcast::group_load(cluster, members, pattern)) {
    result[cluster.name_of(load.link)] = load.weight;
  }
  return result;
}
