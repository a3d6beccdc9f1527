#include "scenarios/error_band.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "scenarios/document.h"
#include "scenarios/profile_json.h"

namespace flopcast {
namespace {

constexpr int kFormat = 1;
constexpr std::string_view kStyles[] = {"dense", "experts", "sharded parameters", "adapters"};

}  // namespace

std::string_view style_of(const Job& job) {
  if (job.training.adapters) return kStyles[3];
  if (job.model.moe) return kStyles[1];
  return kStyles[job.layout.zero == 3 ? 2 : 0];
}

std::optional<ErrorBand> error_band(std::string style, std::vector<double> ratios) {
  constexpr double kTail = (1 - kBandShare) / 2;
  const auto next = static_cast<double>(ratios.size()) + 1;
  constexpr double kRounding = 1e-9;  // 0.1 * 10 is a whole number
  const double low = std::floor(kTail * next + kRounding);
  const double high = std::ceil((1 - kTail) * next - kRounding);
  if (low < 1) return std::nullopt;
  std::sort(ratios.begin(), ratios.end());
  return ErrorBand{.style = std::move(style),
                   .runs = static_cast<int>(ratios.size()),
                   .low = ratios[static_cast<std::size_t>(low) - 1],
                   .high = ratios[static_cast<std::size_t>(high) - 1]};
}

std::optional<ErrorBand> band_of(std::span<const ErrorBand> bands, const Job& job) {
  const auto found = std::ranges::find(bands, style_of(job), &ErrorBand::style);
  if (found == bands.end()) return std::nullopt;
  return *found;
}

std::filesystem::path error_bands_file(const std::filesystem::path& catalogue) {
  return catalogue / "error_bands.json";
}

std::vector<ErrorBand> read_error_bands(const std::filesystem::path& file) {
  const Document document = Document::read(file);
  const Node root = document.root();
  root.at("format").integer(kFormat, kFormat);
  root.at("note").text();
  std::vector<ErrorBand> bands;
  for (const Node& row : root.at("bands").items()) {
    const double low = row.at("low").number(0);
    bands.push_back({.style = std::string(kStyles[row.at("style").index_among(kStyles)]),
                     .runs = row.at("runs").small_integer(1),
                     .low = low,
                     .high = row.at("high").number(low)});
  }
  root.finish();
  return bands;
}

std::string error_bands_text(std::span<const ErrorBand> bands) {
  constexpr int kDigits = 4;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ErrorBand& band : bands) {
    rows.push_back({{"style", band.style},
                    {"runs", band.runs},
                    {"low", with_digits(band.low, kDigits)},
                    {"high", with_digits(band.high, kDigits)}});
  }
  const nlohmann::ordered_json root{
      {"format", kFormat},
      {"note",
       "Measured step time over forecast of published runs marked fit, 10th and 90th percentile; "
       "written by flopcast validate --write-bands"},
      {"bands", std::move(rows)}};
  return root.dump(2) + "\n";
}

}  // namespace flopcast
