#pragma once

// How weights are kept and gathered that products read in 8 or 4 bits.

#include "calibration/profile.h"
#include "models/training.h"

namespace flopcast {

/// Of one element.
struct WeightSizes {
  Bytes plain;     // of parameters that are no such weights
  Bytes kept;      // by a rank that has the weight whole, beside the optimizer's fp32
  Bytes gathered;  // from ranks of which each steps a part
  Bytes cast;      // traffic, once a step, to make what products read from what was gathered

  /// Of `all` elements of which some are such weights.
  Bytes kept_of(double all, double linear) const { return linear * kept + (all - linear) * plain; }
  Bytes gathered_of(double all, double linear) const {
    return linear * gathered + (all - linear) * plain;
  }
};

/// The parameter, with copies as the products read it, along rows and along columns; or the copies
/// alone (fp8_param_gather).
///   fp8            one scale: gathered in 8 bits. The copy along columns is the other one
///                  transposed; GPUs that know scaled formats need none, they multiply along both.
///   fp8_blockwise  blocks of 128 x 128, whose few scales are not counted: likewise, in two copies
///   mxfp8          has other scales along columns: gathered in 16 bits, in the gradient buffer,
///                  and cast along both
///   nvfp4          the parameter stays
/// Under ZeRO-3 a rank keeps its shard as it is gathered and no copies; what is gathered is used at
/// once, its casts are not modelled.
/// Sources: Transformer Engine v2, pytorch/module/base.py, get_weight_workspace (a weight is cast
/// with a step's first micro-batch, and its copies are kept; Megatron-LM d98e8a64,
/// core/extensions/transformer_engine.py, is_first_microbatch), tensor/float8_tensor.py
/// (is_non_tn_fp8_gemm_supported); Megatron-LM, core/fp8_utils.py, core/distributed/
/// param_and_grad_buffer.py (reuse_grad_buf_for_mxfp8_param_ag). That some recipes have the first
/// and last layers in 16 bits, and the optimizer's own cast of its shard, are not modelled.
WeightSizes weight_sizes(const Training& training, const Profile& profile);

/// Of a model beside its adapters.
WeightSizes frozen_weight_sizes(const Training& training, const Profile& profile);

}  // namespace flopcast
