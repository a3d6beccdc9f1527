#pragma once

// Programs that differ only in how long kernels take and how many bytes they hold, as one program
// with a variant for each: ranks that hold different experts do the same, more or less of it.

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/workload.h"

namespace flopcast {

struct SharedPrograms {
  std::vector<Program> programs;  // those that differ in more
  std::vector<Variant> variants;  // none where a program stands for one only
  struct Place {
    std::uint32_t program = 0;
    std::optional<std::uint32_t> variant{};
  };
  std::vector<Place> places;  // of each source
};

/// Ops of the sources are as they stand: none refers to a variant yet.
SharedPrograms share_programs(std::vector<Program> sources);

}  // namespace flopcast
