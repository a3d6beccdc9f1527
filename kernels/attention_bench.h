#pragma once

// Measures fused attention through cuDNN. Only for sources of this folder.

#include <string>

#include "kernels/bench.h"
#include "kernels/measurement_case.h"

namespace flopcast {

/// Throws DeviceError where this build has no cuDNN, where cuDNN has no such kernel on this GPU and
/// where it computes the wrong thing.
Measurement measure_attention(Bench& bench, const AttentionCase& attention, const StopRule& rule);

/// Whether this build has cuDNN.
bool has_cudnn();

/// "9.19.0", or "none".
std::string cudnn_version();

}  // namespace flopcast
