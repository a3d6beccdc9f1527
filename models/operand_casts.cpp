#include "models/operand_casts.h"

namespace flopcast {
namespace {

/// Tensor cores without scaled formats keep some 14 bits of a sum of fp8 products. For gradients
/// Transformer Engine has the sums moved to CUDA cores every few products, which is what products
/// of fp8 in blocks do as well; they take the time of those (assumed). Sources: Transformer Engine
/// v2, pytorch/module/base.py, _2X_ACC_FPROP, _2X_ACC_DGRAD, _2X_ACC_WGRAD; DeepSeek-V3, arXiv
/// 2412.19437, section 3.3.2.
bool promotes_sums(const Operator& op, const Profile& profile) {
  const bool gradient =
      op.phase == OperatorPhase::data_gradient || op.phase == OperatorPhase::weight_gradient;
  return gradient && !knows_scaled_formats(profile);
}

constexpr double kReorderedScale = 3;  // written, read and written again

Bytes block_scale_size(DataType type) {
  if (scaled_block(type) == 1) return {};
  return element_size(type == DataType::fp8_blockwise ? DataType::fp32 : DataType::fp8);
}

/// Of its block's scale, per element.
Bytes scale_share(DataType type) {
  return block_scale_size(type) / static_cast<double>(scaled_block(type));
}

}  // namespace

std::int64_t scaled_block(DataType type) {
  switch (type) {
    case DataType::fp32:
    case DataType::tf32:
    case DataType::fp16:
    case DataType::bf16:
    case DataType::fp8: return 1;
    case DataType::fp8_blockwise: return 128;
    case DataType::mxfp8: return 32;
    case DataType::nvfp4: return 16;
  }
  return 1;
}

Bytes operand_size(DataType type) { return element_size(type) + scale_share(type); }

bool gathers_quantised(const Training& training) {
  if (unquantised_type(training) == training.precision) return false;
  if (training.tensor_dtype) return *training.tensor_dtype == training.precision;
  switch (training.framework.quantised_gathers) {
    case QuantisedGathers::none: return false;
    case QuantisedGathers::per_tensor: return training.precision == DataType::fp8;
    case QuantisedGathers::all: return true;
  }
  return false;
}

double gathered_orientations(DataType type) { return scaled_block(type) == 1 ? 1 : 2; }

bool reduces_maximum(const Training& training) {
  return training.precision == DataType::nvfp4 ||
         (training.precision == DataType::fp8 && training.current_scaling);
}

bool knows_scaled_formats(const Profile& profile) {
  return profile.peak_dense[static_cast<std::size_t>(DataType::mxfp8)].has_value();
}

DataType unquantised_type(const Training& training) {
  const bool quantised = element_size(training.precision) < element_size(DataType::bf16);
  return quantised ? DataType::bf16 : training.precision;
}

DataType product_type(const Operator& op, const Training& training, const Profile& profile) {
  if (op.unquantised) return unquantised_type(training);
  const bool promoted = training.precision == DataType::fp8 && promotes_sums(op, profile);
  if (promoted && has_gemm(profile, DataType::fp8_blockwise)) return DataType::fp8_blockwise;
  return training.precision;
}

Bytes cast_traffic(const Training& training) {
  const Bytes source = element_size(unquantised_type(training));
  const Bytes copies = 2.0 * element_size(training.precision);
  const Bytes scales = 2.0 * kReorderedScale * scale_share(training.precision);
  switch (training.precision) {
    case DataType::fp32:
    case DataType::tf32:
    case DataType::fp16:
    case DataType::bf16: return {};
    case DataType::fp8: return (training.current_scaling ? 2.0 : 1.0) * source + copies;
    case DataType::fp8_blockwise: return source + copies + 2.0 * scale_share(training.precision);
    case DataType::mxfp8: return source + copies + scales;
    case DataType::nvfp4: return 2.0 * source + copies + scales;
  }
  return {};
}

}  // namespace flopcast
