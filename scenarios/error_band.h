#pragma once

// How far measured steps lie from their forecasts, from published runs that constants may be
// chosen by: what a forecast of the same style can claim.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/training.h"
#include "sim/units.h"

namespace flopcast {

/// Part of the runs that a band holds: from the 10th percentile to the 90th.
inline constexpr double kBandShare = 0.8;

/// Of the runs of one style, measured step time over forecast at both ends of the band.
struct ErrorBand {
  std::string style;  // by style_of()
  int runs = 0;
  double low = 0;
  double high = 0;
};

/// "dense", "experts", "sharded parameters" (ZeRO-3, FSDP) or "adapters" (LoRA).
std::string_view style_of(const Job& job);

/// The band that holds kBandShare of further runs on average, whatever the errors' distribution:
/// of n ratios in order, the floor(0.1 (n + 1))-th and the ceil(0.9 (n + 1))-th. None for fewer
/// than 9. Split conformal prediction, Lei et al., JASA 113 (2018), section 2.2, at both ends.
std::optional<ErrorBand> error_band(std::string style, std::vector<double> ratios);

/// The band of the job's style, where there is one.
std::optional<ErrorBand> band_of(std::span<const ErrorBand> bands, const Job& job);

/// Where the shipped bands lie in the catalogue's folder.
std::filesystem::path error_bands_file(const std::filesystem::path& catalogue);
/// Throws InputError on anything missing, unknown or out of range.
std::vector<ErrorBand> read_error_bands(const std::filesystem::path& file);
/// The text of such a file.
std::string error_bands_text(std::span<const ErrorBand> bands);

}  // namespace flopcast
