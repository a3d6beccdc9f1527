#pragma once

// Inside the step-level network: algorithms of collective_steps.cpp that have a file of their own.

#include "topology/collective_steps.h"
#include "topology/step_builder.h"

namespace flopcast {

/// From the first member along each channel's ring to the one before it, chunk by chunk.
/// Source: NCCL 2.30.7, src/device/broadcast.h.
void add_broadcast_chain(const CollectiveSteps& spec, StepBuilder& builder);

/// All that have the data hand it on, to one other each.
void add_broadcast_tree(const CollectiveSteps& spec, StepBuilder& builder);

/// Each member takes care of one slice: the switch adds up what all have of it and hands the sum to
/// that member, which has the switch copy it to all. So a member sends the buffer once and its
/// slice once more. Sources: NCCL 2.30.7, src/transport/nvls.cc; Klenk et al., ISCA 2020.
void add_in_switch(const CollectiveSteps& spec, const Cluster& cluster, StepBuilder& builder);

}  // namespace flopcast
