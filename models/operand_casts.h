#pragma once

// What it costs to bring the operands of a linear layer into 8 or 4 bits, and which type its
// products have then.

#include "models/layer_operators.h"
#include "models/training.h"

namespace flopcast {

/// Of the products that are not quantised where those of linear layers are.
DataType unquantised_type(const Training& training);

/// Whether the GPU multiplies 8-bit operands with scales for blocks: from Blackwell on.
bool knows_scaled_formats(const Profile& profile);

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

/// One element of an operand in one orientation, with its part of its block's scale.
Bytes operand_size(DataType type);

/// Elements along a row or a column that share a scale; 1 where there is one for the tensor.
std::int64_t scaled_block(DataType type);

/// Whether tensor-parallel ranks gather operands of linear layers as the products read them, not in
/// 16 bits.
bool gathers_quantised(const Training& training);

/// Copies of an operand that are gathered where two products read it, along rows and along columns:
/// with one scale for all of it the second orientation is made of the first one, in blocks it has
/// other scales. Source: Transformer Engine v2, pytorch/distributed.py, _all_gather_fp8,
/// _all_gather_mxfp8, _all_gather_nvfp4, _start_all_gather_fp8_blockwise.
double gathered_orientations(DataType type);

/// Whether ranks must agree on the scale before they cast what is gathered: that of a tensor as it
/// is now. Source: Transformer Engine v2, pytorch/module: with_amax_reduction of the input of a
/// column-parallel and the gradient of a row-parallel layer.
bool reduces_maximum(const Training& training);

}  // namespace flopcast
