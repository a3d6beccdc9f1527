#pragma once

// Tables of collectives that were measured on public machines: calibration/data/collectives.json,
// written by tools/scripts/make_collective_tables.py.

#include <vector>

#include "calibration/collective_validation.h"
#include "scenarios/document.h"

namespace flopcast {

/// Throws InputError on anything missing, unknown or out of range.
std::vector<RecordedTable> read_recorded_tables(const Document& document);

}  // namespace flopcast
