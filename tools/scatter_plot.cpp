#include "tools/scatter_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace flopcast {
namespace {

// Of a panel, in pixels.
constexpr double kPanel = 300;
constexpr double kLeft = 46;
constexpr double kTop = 42;
constexpr double kPlot = 230;
constexpr std::size_t kPanelsInRow = 4;
constexpr double kMostRatio = 2;
constexpr std::array kRatios{0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0};

/// Decades of time to pixels, from left to right.
struct TimeAxis {
  double low = 0;
  double high = 1;

  double at(double decade) const { return kPlot * (decade - low) / (high - low); }
};

TimeAxis time_axis(const ScatterPanel& panel) {
  TimeAxis axis{.low = std::numeric_limits<double>::infinity(),
                .high = -std::numeric_limits<double>::infinity()};
  for (const ScatterPoint& point : panel.points) {
    axis.low = std::min(axis.low, std::log10(point.measured.value));
    axis.high = std::max(axis.high, std::log10(point.measured.value));
  }
  constexpr double kMargin = 0.05;
  axis.low -= kMargin;
  axis.high += kMargin;
  return axis;
}

/// A ratio of times to pixels, from the top down; what is beyond the axis lies on its end.
double ratio_at(double ratio) {
  const double part =
      std::log(std::clamp(ratio, 1 / kMostRatio, kMostRatio)) / std::log(kMostRatio);
  return kPlot * (1 - part) / 2;
}

std::string decade_text(int decade) {
  if (decade >= 0) return fmt::format("{:g} s", std::pow(10.0, decade));
  if (decade >= -3) return fmt::format("{:g} ms", std::pow(10.0, decade + 3));
  return fmt::format("{:g} us", std::pow(10.0, decade + 6));
}

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, x1,
      y1, x2, y2);
}

std::string grid(const TimeAxis& axis) {
  std::string out;
  const auto first = static_cast<int>(std::ceil(axis.low));
  for (int decade = first; decade <= static_cast<int>(std::floor(axis.high)); ++decade) {
    const double x = axis.at(decade);
    out += line(x, 0, x, kPlot, "grid");
    out += fmt::format("<text class=\"x\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x, kPlot + 14,
                       decade_text(decade));
  }
  for (const double ratio : kRatios) {
    const double y = ratio_at(ratio);
    out += line(0, y, kPlot, y, ratio == 1 ? "same" : "guide");
    out += fmt::format("<text class=\"y\" x=\"-4\" y=\"{:.1f}\">{:g}</text>\n", y + 4, ratio);
  }
  return out;
}

/// One path of dots: a picture of thousands of them stays small.
std::string dots(const ScatterPanel& panel, const TimeAxis& axis, bool held_back) {
  std::string path;
  for (const ScatterPoint& point : panel.points) {
    if (point.held_back != held_back) continue;
    path += fmt::format("M{:.1f} {:.1f}h0", axis.at(std::log10(point.measured.value)),
                        ratio_at(point.forecast / point.measured));
  }
  return fmt::format("<path class=\"{}\" d=\"{}\"/>\n", held_back ? "held" : "fit", path);
}

std::string drawn(const ScatterPanel& panel, double x, double y) {
  const TimeAxis axis = time_axis(panel);
  std::string out = fmt::format("<g transform=\"translate({:g} {:g})\">\n", x + kLeft, y + kTop);
  out += fmt::format("<text class=\"name\" x=\"0\" y=\"-22\">{}</text>\n", panel.name);
  out += fmt::format("<text x=\"0\" y=\"-8\">{}</text>\n", panel.note);
  out += grid(axis);
  out += fmt::format("<rect class=\"frame\" width=\"{0:g}\" height=\"{0:g}\"/>\n", kPlot);
  return out + dots(panel, axis, false) + dots(panel, axis, true) + "</g>\n";
}

constexpr std::string_view kStyle =
    "<style>text{font:10px sans-serif;fill:#333}.name{font-weight:bold;font-size:12px}"
    ".x{text-anchor:middle}.y{text-anchor:end}line,.frame{fill:none;stroke:#999}"
    ".grid{stroke:#eee}.same{stroke:#333}.guide{stroke:#bbb;stroke-dasharray:3 3}"
    "path{fill:none;stroke-linecap:round;stroke-width:2.5}.fit{stroke:#7fa8d9}"
    ".held{stroke:#d9480f}</style>\n";

}  // namespace

std::string scatter_svg(std::string_view legend, std::span<const ScatterPanel> panels) {
  constexpr double kHead = 24;
  std::string body;
  std::size_t count = 0;
  for (const ScatterPanel& panel : panels) {
    if (panel.points.empty()) continue;
    const std::size_t above = count / kPanelsInRow;
    body += drawn(panel, kPanel * static_cast<double>(count % kPanelsInRow),
                  kHead + kPanel * static_cast<double>(above));
    ++count;
  }
  const std::size_t lines = (count + kPanelsInRow - 1) / kPanelsInRow;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
             "viewBox=\"0 0 {0:g} {1:g}\">\n",
             kPanel * static_cast<double>(std::clamp<std::size_t>(count, 2, kPanelsInRow)),
             kHead + kPanel * static_cast<double>(lines)) +
         std::string(kStyle) + "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" +
         fmt::format("<text x=\"10\" y=\"16\">{}</text>\n", legend) + body + "</svg>\n";
}

}  // namespace flopcast
