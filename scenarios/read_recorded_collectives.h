#pragma once

// Collectives of a record of `flopcast calibrate` (kernels/README.md), as tables like those of
// nccl-tests.

#include <filesystem>
#include <vector>

#include "calibration/collective_table.h"

namespace flopcast {

/// One table for each kind and shape of group, sizes ascending; none where the file is no record or
/// holds no collectives. Those measured beside a kernel, or for their jitter, are left out. Throws
/// InputError with the place of what is no number.
std::vector<CollectiveTable> read_recorded_collectives(const std::filesystem::path& file);

}  // namespace flopcast
