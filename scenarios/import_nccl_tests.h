#pragma once

// Reads what nccl-tests and rccl-tests print: tables of text in their old and new columns, within
// the output of a launcher (mpirun tags, Slurm ranks) and of NCCL's debug lines; and their JSON and
// CSV files. What the file does not say is inferred, and each inference is a note.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/collective_table.h"

namespace flopcast {

/// What the user knows and the file may not say; it wins over an inference.
struct NcclTestsHints {
  std::optional<CollectiveKind> kind;
  std::optional<int> ranks;
  std::optional<int> nodes;
};

/// All tables of a file, at least one. Throws InputError with file and line where a row is
/// malformed, where there is no table, or where kind or ranks of one cannot be told.
std::vector<CollectiveTable> import_nccl_tests(const std::filesystem::path& file,
                                               const NcclTestsHints& hints = {});

/// The same for text already read; `name` stands for the file in messages.
std::vector<CollectiveTable> parse_nccl_tests(std::string_view text, const std::string& name,
                                              const NcclTestsHints& hints = {});

}  // namespace flopcast
