#include "tools/validation_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "scenarios/error_band.h"
#include "tools/scatter_plot.h"

namespace flopcast {
namespace {

std::string errors_of(const Validation& validation, const std::string& style) {
  const auto group = std::ranges::find(validation.groups, style, &GroupErrors::group);
  if (group == validation.groups.end()) return {};
  return fmt::format("{} runs: {:.1f} / {:.1f} %", group->runs, 100 * group->median,
                     100 * group->p90);
}

}  // namespace

std::string validation_plot_svg(const Validation& validation) {
  std::map<std::string, ScatterPanel> by_style;
  for (const Comparison& run : validation.runs) {
    if (!is_time(run)) continue;
    const std::string style(style_of(run.trial->scenario.job));
    by_style[style].points.push_back({.measured = seconds(run.measured),
                                      .forecast = seconds(run.predicted),
                                      .held_back = run.trial->scenario.mark != Mark::fit});
  }
  std::vector<ScatterPanel> panels;
  panels.reserve(by_style.size());
  for (auto& [style, panel] : by_style) {
    panel.name = style;
    panel.note = errors_of(validation, style);
    panels.push_back(std::move(panel));
  }
  return scatter_svg(
      "Across: measured step time. Up: forecast over measured; beyond 2, at the edge. Orange: test "
      "runs; errors: median / 90 %",
      panels);
}

}  // namespace flopcast
