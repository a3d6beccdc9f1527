#pragma once

// Number formats by name and size. A format is a unit: bytes per element.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/units.h"

namespace flopcast {

enum class DataType : std::uint8_t { fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4 };

inline constexpr std::array kDataTypes{DataType::fp32, DataType::tf32, DataType::fp16,
                                       DataType::bf16, DataType::fp8,  DataType::mxfp8,
                                       DataType::nvfp4};

/// Storage of one element without scale factors; tf32 is stored as fp32.
constexpr Bytes element_size(DataType type) {
  switch (type) {
    case DataType::fp32: return bytes(4);
    case DataType::tf32: return bytes(4);
    case DataType::fp16: return bytes(2);
    case DataType::bf16: return bytes(2);
    case DataType::fp8: return bytes(1);
    case DataType::mxfp8: return bytes(1);
    case DataType::nvfp4: return bytes(0.5);
  }
  return {};
}

constexpr std::string_view to_text(DataType type) {
  switch (type) {
    case DataType::fp32: return "fp32";
    case DataType::tf32: return "tf32";
    case DataType::fp16: return "fp16";
    case DataType::bf16: return "bf16";
    case DataType::fp8: return "fp8";
    case DataType::mxfp8: return "mxfp8";
    case DataType::nvfp4: return "nvfp4";
  }
  return {};
}

}  // namespace flopcast
