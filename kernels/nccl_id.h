#pragma once

// How the ranks of a job find each other without a library of the launcher: the first rank leaves
// NCCL's id in a file that all of them see. Only for sources of this folder.

#include <array>
#include <filesystem>
#include <string>

#include "sim/units.h"

namespace flopcast {

using IdBytes = std::array<char, 128>;  // of an ncclUniqueId

/// Where the file is: $FLOPCAST_NCCL_ID_FILE, else ".flopcast-nccl-id-<job>" in the working
/// directory, which launchers start every rank in.
std::filesystem::path id_file(const std::string& job);

/// Written under another name first: nobody reads half of it. Throws IoError.
void leave_id(const std::filesystem::path& file, const std::string& job, const IdBytes& id);

/// Waits for this job's id; another job's is passed over. Throws IoError after `patience`.
IdBytes find_id(const std::filesystem::path& file, const std::string& job, Seconds patience);

}  // namespace flopcast
