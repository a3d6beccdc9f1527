#pragma once

// The answer for a terminal, at most 100 columns wide.

#include <string>
#include <vector>

#include "tools/answer.h"
#include "tools/report_tables.h"

namespace flopcast {

std::string table_report(const Answer& answer, bool colour);

/// Names in one column, texts in the next.
std::string facts_text(const std::vector<Fact>& facts, bool colour);

}  // namespace flopcast
