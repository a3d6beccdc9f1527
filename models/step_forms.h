#pragma once

// Which collectives of a plan have a form as messages. Private to the step-level network.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/step_trees.h"
#include "sim/collective_kind.h"
#include "sim/workload.h"

namespace flopcast {

enum class StepForm : std::uint8_t {
  whole,       // nothing of size travels: it stays one activity
  ring,        // pieces go round, a lane per channel
  direct,      // to every other member at once, a lane each
  two_levels,  // to every neighbour, then to every other domain, a lane each
  next,        // each member to the one listed after it
  tree,        // up and down, two lanes per channel
  in_switch,   // slices that the NVLink switch adds up and copies, a lane each
  none,
};

/// Of one lane.
constexpr std::uint32_t slots_of(StepForm form) { return form == StepForm::tree ? kTreeSlots : 2; }

/// An all-to-all is direct here; how its group lies decides whether it takes two levels.
StepForm form_of(const Transfer& transfer, CollectiveKind kind, const Group& group);

/// The first rank that runs each program.
std::vector<std::size_t> first_ranks(const Workload& workload);

}  // namespace flopcast
