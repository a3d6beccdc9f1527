#pragma once

// Hash collisions of flows: a switch sends each flow over one of several equal cables, by a hash of
// its header (RFC 2992). Some cables so get more flows than others, and a collective waits for the
// slowest of its flows: the cable with most flows sets the pace of all.
//
// n flows of equal demand on m cables of rate c, the fullest with k of them: the trunk as a whole
// carries n * c / k, where even spreading carries m * c (and n * c of fewer flows than cables).

#include <cstdint>

namespace flopcast {

/// Flows on the fullest of `cables`, if each flow falls on any of them with equal chance: the
/// expectation. Exact, by the distribution of flows over the first 1, 2, ... cables.
double expected_max_load(int flows, int cables);

/// The same for one throw of a seeded generator; `trunk` tells the throws of one seed apart.
int max_load(int flows, int cables, std::uint64_t seed, std::uint64_t trunk);

}  // namespace flopcast
