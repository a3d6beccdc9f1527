#pragma once

// What it costs to bring the operands of a linear layer into 8 or 4 bits, and which type its
// products have then.

#include "models/layer_operators.h"
#include "models/training.h"

namespace flopcast {

/// Of the products that are not quantised where those of linear layers are.
DataType unquantised_type(const Training& training);

/// The type by which the profile times the product of an operator.
DataType product_type(const Operator& op, const Training& training, const Profile& profile);

/// Bytes that move per element of a linear layer's input or of its output's gradient, each of which
/// is cast once: it is read in 16 bits and written twice, along rows for one product and along
/// columns for another (forward and weight gradient, data and weight gradient). 0 where linear
/// layers are not quantised.
///   fp8, delayed     reads it once
///   fp8, tensorwise  reads it once more, for its maximum
///   fp8_blockwise    an fp32 scale for 128 elements
///   mxfp8            a byte of scale for 32, written, and brought into the product's order
///   nvfp4            the same for 16; reads it once more, for the scale of the whole tensor
/// Source: Transformer Engine v2, common/cast and common/transpose (one kernel writes both
/// orientations), common/recipe/current_scaling.cu, common/swizzle. Fusion of casts with the
/// kernels before them, which some of its modules know, is not modelled.
Bytes cast_traffic(const Training& training);

}  // namespace flopcast
