#include "models/operand_casts.h"

namespace flopcast {
namespace {

// Of a block's scale, per element.
constexpr Bytes kBlockwiseScale = bytes(4.0 / 128);
constexpr Bytes kMxfp8Scale = bytes(1.0 / 32);
constexpr Bytes kNvfp4Scale = bytes(1.0 / 16);
constexpr double kReorderedScale = 3;  // written, read and written again

}  // namespace

DataType unquantised_type(const Training& training) {
  const bool quantised = element_size(training.precision) < element_size(DataType::bf16);
  return quantised ? DataType::bf16 : training.precision;
}

Bytes cast_traffic(const Training& training) {
  const Bytes source = element_size(unquantised_type(training));
  const Bytes copies = 2.0 * element_size(training.precision);
  switch (training.precision) {
    case DataType::fp32:
    case DataType::tf32:
    case DataType::fp16:
    case DataType::bf16: return {};
    case DataType::fp8:
      return (training.fp8_recipe == Fp8Recipe::tensorwise ? 2.0 : 1.0) * source + copies;
    case DataType::fp8_blockwise: return source + copies + 2.0 * kBlockwiseScale;
    case DataType::mxfp8: return source + copies + 2.0 * kReorderedScale * kMxfp8Scale;
    case DataType::nvfp4: return 2.0 * source + copies + 2.0 * kReorderedScale * kNvfp4Scale;
  }
  return {};
}

}  // namespace flopcast
