#pragma once

// Activations of the first layers on the host between their forward and their backward pass, as
// Transformer Engine moves them: when copies must have ended and when they begin, and what
// Megatron-LM refuses beside them. stage_activation_offload.cpp appends them to a program.
//
// With L layers of which the first N are offloaded, L - N have their activations on the GPU at any
// time, those that are being copied among them:
//
//   forward    layer i is copied out when it is through; layer i + L - N waits for that, and takes
//              its place
//   backward   when layer i + L - N is through, layer i takes its place and is copied back; its own
//              backward pass waits for that
//
// A layer is copied as one: Transformer Engine begins with each tensor when it is there and waits
// for each when it is used, so that up to a layer's pass more may hide. Sources: TransformerEngine
// 2.10, pytorch/cpu_offload.py, DefaultOffloadSynchronizer; Megatron-LM 60e03962,
// megatron/core/transformer/transformer_config.py (cpu_offloading).

#include <cstddef>
#include <optional>
#include <vector>

#include "models/training.h"

namespace flopcast {

/// Which layer comes and goes with which.
struct OffloadWindow {
  std::size_t layers = 0;     // L
  std::size_t offloaded = 0;  // N

  bool holds(std::size_t layer) const { return layer < offloaded; }
  /// Whose activations are gone before the forward pass of `entered` begins.
  std::optional<std::size_t> gone_before(std::size_t entered) const { return shifted(entered); }
  /// Which is copied back from the beginning of the backward pass of `entered` on.
  std::optional<std::size_t> back_from(std::size_t entered) const { return shifted(entered + 1); }

 private:
  std::optional<std::size_t> shifted(std::size_t layer) const {
    const std::size_t resident = layers - offloaded;
    if (layer < resident || !holds(layer - resident)) return std::nullopt;
    return layer - resident;
  }
};

/// Every rule about them that the job breaks; empty where nothing is offloaded.
std::vector<LayoutViolation> activation_offload_violations(const Job& job);

}  // namespace flopcast
