#pragma once

// How well kernel curves do, as tables and as JSON.

#include <string>

#include "calibration/kernel_fit.h"
#include "tools/text_table.h"

namespace flopcast {

/// "2.8 / 10.2": median and 90th percentile in percent; empty for no rows.
std::string error_text(const ErrorSummary& summary);

/// One line per curve: rows, errors of the fit on both sides, of the profile as it was.
TextTable kernel_errors_table(const KernelFits& fits);
/// One line per number, with its 90 % band.
TextTable kernel_parameters_table(const KernelFits& fits);
std::string kernel_fits_json(const KernelFits& fits);

/// Lines on kernels that were repeated, or timed beside collectives; empty where none was.
std::string disturbance_text(const KernelFits& fits);

}  // namespace flopcast
