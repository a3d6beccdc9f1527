#pragma once

// Where the time of every simulated rank went, one row each: what a timeline sums up to, at a
// thousandth of its size.

#include <filesystem>

#include "models/lower.h"
#include "sim/result.h"

namespace flopcast {

/// Throws InputError where the name ends neither in .csv nor in .json, with or without .gz.
void check_rank_file(const std::filesystem::path& file);

/// Row by row: ranks that were folded are one row with their count. Base units; seconds add up:
/// compute + exposed + waiting + idle is the step. Throws IoError where the file cannot be written.
void write_rank_summaries(const std::filesystem::path& file, const Plan& plan,
                          const Result& result);

}  // namespace flopcast
