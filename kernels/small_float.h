#pragma once

// Rounding to the short number formats on the host, to nearest with ties to even, as the GPU does.
// Only for sources of this folder.

namespace flopcast {

/// 8 bits of significand. Not for NaN.
double round_to_bf16(double value);

/// 11 bits of significand, least normal 2^-14. Not above 65504.
double round_to_fp16(double value);

/// 3 bits of significand, least normal 2^-14. Not above 57344.
double round_to_e5m2(double value);

/// 4 bits of significand, least normal 2^-6, steps of 2^-9 below, saturating at 448.
double round_to_e4m3(double value);

}  // namespace flopcast
