#pragma once

// What the time and the bytes of a training step are charged to, in the order of reports.

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/ids.h"

namespace flopcast {

enum class StepCategory : std::uint16_t {
  forward,
  backward,
  recompute,
  optimizer,
  overhead,     // waiting for the host
  tensor,       // tensor-parallel collectives
  pipeline,     // sends and receives between stages
  gradient,     // data-parallel gradient reduction
  parameter,    // data-parallel parameter gather
  synchronize,  // gradient norm, embedding and norm gradients: once a step
  context,      // keys and values between ranks that share a sequence
  expert,       // tokens to experts and back
  offload,      // the optimizer on the host, with its copies
  activation,   // copies of activations to the host and back
};

inline constexpr std::array<std::string_view, 14> kStepCategoryNames{
    "forward",  "backward",  "recompute",   "optimizer", "overhead", "tensor",  "pipeline",
    "gradient", "parameter", "synchronize", "context",   "expert",   "offload", "activation"};

constexpr CategoryId id_of(StepCategory category) {
  return CategoryId{static_cast<std::uint16_t>(category)};
}

/// Where a collective runs as messages (step_network.h), those of its first lane and those of the
/// lanes beside it have categories of their own: the first's time is that of the collective.
enum class MessageLane : std::uint16_t { none, first, other };
inline constexpr std::size_t kMessageLanes = 3;

constexpr CategoryId id_of(StepCategory category, MessageLane lane) {
  const auto block = static_cast<std::uint16_t>(lane) * kStepCategoryNames.size();
  return CategoryId{static_cast<std::uint16_t>(block + static_cast<std::uint16_t>(category))};
}

/// Memory pools of a rank.
enum class MemoryPool : std::uint16_t { parameters, gradients, optimizer, activations, buffers };

inline constexpr std::array<std::string_view, 5> kMemoryPoolNames{
    "parameters", "gradients", "optimizer", "activations", "buffers"};

constexpr CategoryId id_of(MemoryPool pool) { return CategoryId{static_cast<std::uint16_t>(pool)}; }

}  // namespace flopcast
