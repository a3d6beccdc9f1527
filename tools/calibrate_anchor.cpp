#include "tools/calibrate_anchor.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <numeric>

#include "scenarios/anchor.h"
#include "scenarios/read_profile.h"
#include "scenarios/text_file.h"
#include "sim/errors.h"
#include "tools/calibrate_kernels.h"
#include "tools/choice.h"
#include "tools/data_folders.h"
#include "tools/output.h"
#include "tools/report_tables.h"
#include "tools/text_table.h"

namespace flopcast {
namespace {

struct MeasuredGemm {
  DataType type = DataType::bf16;
  GemmShape shape{};
  Seconds time{};
};

/// "8192x8192x8192:fp8=0.9 ms"; bf16 where no type is named.
MeasuredGemm read_gemm(const std::string& text) {
  const auto fail = [&]() -> InputError {
    return InputError(fmt::format(
        "--anchor-gemm: read \"{}\", expected MxNxK[:TYPE]=TIME such as 8192x8192x8192=1.5ms",
        text));
  };
  const auto equals = text.find('=');
  if (equals == std::string::npos) throw fail();
  std::string shape = text.substr(0, equals);
  MeasuredGemm gemm;
  if (const auto colon = shape.find(':'); colon != std::string::npos) {
    std::vector<Choice<DataType>> types;
    types.reserve(kDataTypes.size());
    for (const DataType type : kDataTypes) types.push_back({to_text(type), type});
    gemm.type = read_choice<DataType>("--anchor-gemm", shape.substr(colon + 1), types);
    shape.resize(colon);
  }
  std::array<std::int64_t, 3> sizes{};
  const char* at = shape.data();
  const char* const end = at + shape.size();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0 && (at == end || *at++ != 'x')) throw fail();
    const auto read = std::from_chars(at, end, sizes[i]);
    if (read.ec != std::errc() || sizes[i] <= 0) throw fail();
    at = read.ptr;
  }
  const auto time = parse_quantity<Seconds>(text.substr(equals + 1));
  if (at != end || !time || *time <= Seconds{}) throw fail();
  gemm.shape = {.m = sizes[0], .n = sizes[1], .k = sizes[2]};
  gemm.time = *time;
  return gemm;
}

/// What the anchors have to share: the profile whose level is sought.
std::string only_profile(const std::vector<Scenario>& scenarios, const AnchorCalibration& options) {
  if (options.base) return *options.base;
  if (scenarios.empty()) throw InputError("calibrate: --anchor-gemm needs --base PROFILE");
  const std::string& name = scenarios.front().profile.name;
  for (const Scenario& scenario : scenarios) {
    if (scenario.profile.name == name) continue;
    throw InputError(
        fmt::format("calibrate: anchors of two profiles, {} in {} and {} in {}; anchor each alone",
                    name, scenarios.front().file, scenario.profile.name, scenario.file));
  }
  return name;
}

double median_level(const std::vector<Anchor>& anchors) {
  std::vector<double> levels;
  levels.reserve(anchors.size());
  for (const Anchor& anchor : anchors) levels.push_back(anchor.level);
  std::ranges::sort(levels);
  const std::size_t half = levels.size() / 2;
  return levels.size() % 2 == 1 ? levels[half] : std::midpoint(levels[half - 1], levels[half]);
}

TextTable anchor_table(const std::vector<Anchor>& anchors, double own_level) {
  TextTable out{.title = "Anchors",
                .columns = {{"anchor", Align::left},
                            {"metric", Align::left},
                            {"measured"},
                            {fmt::format("at level {:.4g}", own_level)},
                            {"off"},
                            {"level that meets it"}},
                .rows = {}};
  out.rows.reserve(anchors.size());
  for (const Anchor& anchor : anchors) {
    out.rows.push_back({{anchor.name, anchor.metric, metric_text(anchor.measured, anchor.unit),
                         metric_text(anchor.at_profile, anchor.unit),
                         fmt::format("{:+.1f} %", 100 * (anchor.at_profile / anchor.measured - 1)),
                         fmt::format("{:.4g}", anchor.level)}});
  }
  return out;
}

}  // namespace

void add_anchor_options(CLI::App& verb, AnchorCalibration& options) {
  verb.add_option("--anchor", options.scenarios,
                  "Steps that were measured: scenarios that expect a value; finds the level")
      ->type_name("FILE...");
  verb.add_option("--anchor-gemm", options.gemms,
                  "Products that were measured: 8192x8192x8192:fp8=0.9ms")
      ->type_name("MxNxK[:TYPE]=TIME");
}

ExitCode calibrate_anchor(const AnchorCalibration& options) {
  std::vector<Override> overrides;
  if (options.base) overrides.push_back({.path = "profile", .value = *options.base});
  std::vector<Scenario> scenarios;
  scenarios.reserve(options.scenarios.size());
  const DataFolders folders = find_data_folders(options.data);
  for (const std::string& file : options.scenarios) {
    scenarios.push_back(read_scenario(file, overrides, folders));
  }
  const std::string file = profile_file(options.data, only_profile(scenarios, options));
  const Profile profile = read_profile(Document::read(file));
  std::vector<Anchor> anchors;
  anchors.reserve(scenarios.size() + options.gemms.size());
  for (const Scenario& scenario : scenarios) anchors.push_back(step_anchor(scenario));
  for (const std::string& text : options.gemms) {
    const MeasuredGemm gemm = read_gemm(text);
    anchors.push_back(gemm_anchor(profile, gemm.type, gemm.shape, gemm.time));
  }
  const double level = median_level(anchors);
  std::string text = aligned_text(anchor_table(anchors, profile.level), terminal_shows_colour());
  text += fmt::format("\nlevel {:.4g} (fitted{}); that of {} is {:.4g} ({})\n", level,
                      anchors.size() > 1 ? ", the median" : "", profile.name, profile.level,
                      to_text(profile.level_provenance.evidence));
  if (options.output) {
    std::string source = "met by";
    for (const Anchor& anchor : anchors) {
      source += fmt::format("{} {}: {} {}", &anchor == &anchors.front() ? "" : ",", anchor.name,
                            anchor.metric, metric_text(anchor.measured, anchor.unit));
    }
    const std::string name = std::filesystem::path(*options.output).stem().string();
    const std::string written =
        profile_with_level(read_text_file(file, "a profile"), name, level, source);
    read_profile(Document::parse(written, *options.output));  // what is written can be read
    write_output(options.output, written);
    text += fmt::format("written: {}\n", *options.output);
  }
  write_output(std::nullopt, text);
  return ExitCode::passed;
}

}  // namespace flopcast
