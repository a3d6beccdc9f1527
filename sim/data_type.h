#pragma once

// Number formats by name and size. A format is a unit: bytes per element.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/units.h"

namespace flopcast {

/// fp8: one scale for a tensor; fp8_blockwise: one for 1 x 128 elements of an activation and 128 x
/// 128 of a weight (DeepSeek-V3, arXiv 2412.19437, section 3.3.2); mxfp8, nvfp4: one for 32 and 16.
enum class DataType : std::uint8_t { fp32, tf32, fp16, bf16, fp8, fp8_blockwise, mxfp8, nvfp4 };

inline constexpr std::array kDataTypes{DataType::fp32,  DataType::tf32, DataType::fp16,
                                       DataType::bf16,  DataType::fp8,  DataType::fp8_blockwise,
                                       DataType::mxfp8, DataType::nvfp4};

/// Storage of one element without scale factors; tf32 is stored as fp32.
constexpr Bytes element_size(DataType type) {
  switch (type) {
    case DataType::fp32: return bytes(4);
    case DataType::tf32: return bytes(4);
    case DataType::fp16: return bytes(2);
    case DataType::bf16: return bytes(2);
    case DataType::fp8: return bytes(1);
    case DataType::fp8_blockwise: return bytes(1);
    case DataType::mxfp8: return bytes(1);
    case DataType::nvfp4: return bytes(0.5);
  }
  return {};
}

/// Whose peak rate products of a format have: blocks of fp8 are multiplied as fp8.
constexpr DataType multiplied_as(DataType type) {
  return type == DataType::fp8_blockwise ? DataType::fp8 : type;
}

constexpr std::string_view to_text(DataType type) {
  switch (type) {
    case DataType::fp32: return "fp32";
    case DataType::tf32: return "tf32";
    case DataType::fp16: return "fp16";
    case DataType::bf16: return "bf16";
    case DataType::fp8: return "fp8";
    case DataType::fp8_blockwise: return "fp8_blockwise";
    case DataType::mxfp8: return "mxfp8";
    case DataType::nvfp4: return "nvfp4";
  }
  return {};
}

}  // namespace flopcast
