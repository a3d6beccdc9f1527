#pragma once

// How a job is split and trained, and on what, in one line each.

#include <string>

#include "models/training.h"
#include "topology/cluster.h"

namespace flopcast {

/// "tp 8, pp 16 (vpp 8), dp 128, ZeRO 1, sequence parallel".
std::string layout_text(const Layout& layout);
/// "none", "selective", "full", "full, 2 layers of each chunk".
std::string recompute_text(const Recompute& recompute);
/// "activations of 20 of 32 layers to the host and back"; empty where nothing goes there.
std::string offload_text(const Job& job);
/// "64 GPUs: 6 x dgx-h100 with 8 h100-sxm, 2 x dgx-a100 with 8 a100-sxm".
std::string machine_text(const ClusterSpec& cluster);

}  // namespace flopcast
