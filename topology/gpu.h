#pragma once

// One GPU as its maker describes it. The catalogue (scenarios/catalogue/gpus.json) holds the rows.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/data_type.h"
#include "sim/units.h"

namespace flopcast {

struct Gpu {
  std::string name;          // catalogue name: "h100-sxm"
  std::string description;   // "NVIDIA H100 SXM5 80 GB"
  std::string architecture;  // "hopper"
  std::array<std::optional<FlopsPerSecond>, kDataTypes.size()> peak_dense;  // by DataType
  int sms = 0;  // streaming multiprocessors, or compute units
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  BytesPerSecond nvlink;  // all links of the GPU, one direction; 0 without (xGMI for AMD)
  BytesPerSecond pcie;    // one direction
  std::vector<std::string> sources;

  std::optional<FlopsPerSecond> peak(DataType type) const {
    return peak_dense[static_cast<std::size_t>(multiplied_as(type))];
  }
};

}  // namespace flopcast
