#include "tools/kernel_plot.h"

#include <fmt/format.h>

#include <vector>

#include "tools/kernel_report.h"
#include "tools/scatter_plot.h"

namespace flopcast {

std::string kernel_plots_svg(std::span<const KernelFitRow> rows) {
  std::vector<ScatterPanel> panels;
  panels.reserve(rows.size());
  for (const KernelFitRow& row : rows) {
    ScatterPanel panel{.name = row.op,
                       .note = fmt::format("{} fitted, {} held back: {} %", row.fitted.rows,
                                           row.held_back.rows, error_text(row.held_back)),
                       .points = {}};
    panel.points.reserve(row.points.size());
    for (const FittedPoint& point : row.points) {
      panel.points.push_back(
          {.measured = point.measured, .forecast = point.fitted, .held_back = point.held_back});
    }
    panels.push_back(std::move(panel));
  }
  return scatter_svg(
      "Across: measured time. Up: fitted over measured; beyond 2, at the edge. Orange: held back; "
      "errors: median / 90 %",
      panels);
}

}  // namespace flopcast
