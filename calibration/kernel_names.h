#pragma once

// Names of kernels in files and reports.

#include <array>
#include <string_view>

#include "calibration/profile.h"

namespace flopcast {

/// By MemoryKernel.
inline constexpr std::array<std::string_view, kMemoryKernels> kMemoryKernelNames{
    "elementwise", "norm_forward", "norm_backward", "rotary",  "softmax",
    "embedding",   "optimizer",    "permute",       "quantise"};

constexpr std::string_view to_text(MemoryKernel kernel) {
  return kMemoryKernelNames[static_cast<std::size_t>(kernel)];
}

/// By AttentionKernel.
inline constexpr std::array<std::string_view, kAttentionKernels> kAttentionKernelNames{
    "flash1", "flash2", "newest"};

constexpr std::string_view to_text(AttentionKernel kernel) {
  return kAttentionKernelNames[static_cast<std::size_t>(kernel)];
}

inline constexpr std::array kAttentionKernelKinds{AttentionKernel::flash1, AttentionKernel::flash2,
                                                  AttentionKernel::newest};

constexpr std::string_view to_text(AttentionPass pass) {
  return pass == AttentionPass::forward ? "forward" : "backward";
}

}  // namespace flopcast
