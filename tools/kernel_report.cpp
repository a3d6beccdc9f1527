#include "tools/kernel_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace flopcast {
namespace {

nlohmann::ordered_json errors_json(const ErrorSummary& summary) {
  return {{"rows", summary.rows}, {"median", summary.median}, {"p90", summary.p90}};
}

}  // namespace

std::string error_text(const ErrorSummary& summary) {
  if (summary.rows == 0) return "";
  return fmt::format("{:.1f} / {:.1f}", 100 * summary.median, 100 * summary.p90);
}

TextTable kernel_errors_table(const KernelFits& fits) {
  TextTable table{.title = "Errors, median / 90 %, % (fitted; held back: not in the fit)",
                  .columns = {{"kernel", Align::left},
                              {"rows"},
                              {"fit"},
                              {"held back"},
                              {"fit, held back"},
                              {"base, held back"}},
                  .rows = {}};
  table.rows.reserve(fits.rows.size());
  for (const KernelFitRow& row : fits.rows) {
    table.rows.push_back({{row.op, fmt::format("{}", row.fitted.rows), error_text(row.fitted),
                           fmt::format("{}", row.held_back.rows), error_text(row.held_back),
                           row.before ? error_text(*row.before) : ""}});
  }
  return table;
}

TextTable kernel_parameters_table(const KernelFits& fits) {
  TextTable table{
      .title = "Parameters with their 90 % bands (fitted)",
      .columns = {{"kernel", Align::left}, {"parameter", Align::left}, {"value"}, {"from"}, {"to"}},
      .rows = {}};
  for (const KernelFitRow& row : fits.rows) {
    for (const FittedParameter& one : row.parameters) {
      table.rows.push_back({{row.op, one.name, fmt::format("{:.4g}", one.value),
                             fmt::format("{:.4g}", one.low), fmt::format("{:.4g}", one.high)}});
    }
  }
  return table;
}

std::string disturbance_text(const KernelFits& fits) {
  std::string text;
  if (fits.jitter) {
    const JitterFit& jitter = *fits.jitter;
    text += fmt::format(
        "Repeated kernels vary by {:.2f} % ({:.2f} to {:.2f} %, kernels: {}, runs: {}; measured): "
        "kernel_spread.\n",
        100 * jitter.spread.sigma, 100 * jitter.least, 100 * jitter.most, jitter.kernels,
        jitter.runs);
  }
  const auto share = [&text](const std::optional<double>& part, std::string_view where) {
    if (!part) return;
    text += fmt::format(
        "A collective {} takes {:.1f} % of the kernels beside it (measured): "
        "compute_share.\n",
        where, 100 * *part);
  };
  if (fits.shares) {
    share(fits.shares->domain, "in a node");
    share(fits.shares->network, "across nodes");
  }
  return text.empty() ? text : text + "\n";
}

std::string kernel_fits_json(const KernelFits& fits) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const KernelFitRow& row : fits.rows) {
    nlohmann::ordered_json json{{"kernel", row.op},
                                {"evidence", "fitted"},
                                {"fitted", errors_json(row.fitted)},
                                {"held_back", errors_json(row.held_back)}};
    if (row.before) json["base_held_back"] = errors_json(*row.before);
    for (const FittedParameter& one : row.parameters) {
      json["parameters"][one.name] = {{"value", one.value}, {"low", one.low}, {"high", one.high}};
    }
    all.push_back(std::move(json));
  }
  nlohmann::ordered_json report{{"fits", all}, {"left_out", fits.left_out}};
  if (fits.jitter) {
    report["kernel_spread"] = {{"sigma", fits.jitter->spread.sigma}, {"evidence", "measured"},
                               {"least", fits.jitter->least},        {"most", fits.jitter->most},
                               {"kernels", fits.jitter->kernels},    {"runs", fits.jitter->runs}};
  }
  if (fits.shares) {
    nlohmann::ordered_json& shares = report["compute_share"];
    if (fits.shares->domain) shares["domain"] = *fits.shares->domain;
    if (fits.shares->network) shares["network"] = *fits.shares->network;
    shares["evidence"] = "measured";
    shares["kernels"] = fits.shares->kernels;
  }
  return report.dump(2) + "\n";
}

}  // namespace flopcast
