#pragma once

// Where the shipped data lies: catalogue/ and profiles/.

#include <optional>
#include <string>

#include "scenarios/scenario.h"

namespace flopcast {

/// The first that is there of: `chosen` (--data), the environment's FLOPCAST_DATA, the data
/// installed with this program, the source tree that it was built from. Throws InputError where
/// `chosen` or FLOPCAST_DATA names a folder without data, and where nothing is found.
DataFolders find_data_folders(const std::optional<std::string>& chosen);

}  // namespace flopcast
