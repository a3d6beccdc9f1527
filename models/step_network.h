#pragma once

// The step-level network of a whole training step: each collective as the messages of its
// algorithm over the routes between its ranks, in place of one activity that loads all its links.
//
// A collective still starts when its last member arrives. Then a ring passes pieces on, in one lane
// for each channel; trees pass chunks up and down, two lanes for each channel (step_trees.h); an
// all-to-all sends to everyone at once, a lane each, or over rails to every neighbour and from
// there to every other domain; the switch of a node adds up slices and copies them out
// (step_parts.h). Every message has its part of the collective's latency and of the rate that it
// reaches alone, so that a collective with the network for itself takes as long as before; who has
// to wait for whom on shared links is what may come out differently. Slow: a ring over n ranks
// sends 2 (n - 1) messages per rank and channel, a tree hundreds of chunks.

#include <optional>
#include <string>

#include "models/lower.h"
#include "topology/cluster.h"

namespace flopcast {

/// What of the plan has no form as steps, in words for the user. The plan has a row for every rank.
std::optional<std::string> step_network_gap(const Plan& plan);

/// There must be no gap. Adds lanes to the streams, and message categories (MessageLane).
Plan with_step_network(Plan plan, const Cluster& cluster);

}  // namespace flopcast
