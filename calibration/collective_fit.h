#pragma once

// Fits a network model to a cluster's own nccl-tests tables: the scales of the regimes that its
// group shapes use. What no table shows stays the prior, so that a fit to a few shapes predicts the
// others as NCCL would. Robust: each row counts by its relative error, spikes are dropped, rows cut
// or missing in one column are taken from the other.

#include <span>
#include <string>
#include <vector>

#include "calibration/collective_table.h"
#include "calibration/profile.h"

namespace flopcast {

/// A table on its machine.
struct PlacedTable {
  CollectiveTable table;
  GroupShape shape;
  NetworkPath path;
};

struct CollectivePoint {
  Bytes size;
  Seconds time;
};

/// A row that is not used, or not as it stands.
struct DoubtfulRow {
  Bytes size;
  int line = 0;  // of the log; 0 if unknown
  std::string reason;
};

/// Times out of place; in place where those are missing or more than 1.5 times as long. Rows that
/// are 1.5 times as long as both neighbours are left out.
std::vector<CollectivePoint> clean_points(const CollectiveTable& table);
/// What clean_points left out or took from the other column.
std::vector<DoubtfulRow> doubtful_rows(const CollectiveTable& table);

/// A curve through the points. Where a larger buffer took less time, neighbours share the
/// geometric mean of their times (pool adjacent violators, Ayer et al. 1955).
CollectiveCurve measured_curve(const PlacedTable& table, std::span<const CollectivePoint> points);

/// Relative errors of a model on rows.
struct ErrorSummary {
  std::size_t rows = 0;
  double mean = 0;
  double median = 0;
  double p90 = 0;
};
ErrorSummary summary_of(std::vector<double> relative_errors);

/// |predicted / measured - 1| of each clean point.
std::vector<double> model_errors(const NetworkModel& model, const PlacedTable& table);

struct TableFit {
  std::string file;
  CollectiveKind kind{};
  GroupShape shape;
  ErrorSummary before;  // with the prior alone
  ErrorSummary after;
};

struct NetworkFit {
  NetworkModel model;
  std::vector<TableFit> tables;
  ErrorSummary all_rows;  // of all tables after the fit
};

/// `prior` must have regimes; those that a table speaks of are fitted anew, starting from it.
NetworkFit fit_network(std::span<const PlacedTable> tables, const NetworkModel& prior);

}  // namespace flopcast
