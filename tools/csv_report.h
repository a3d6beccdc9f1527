#pragma once

// Answers as comma-separated values (RFC 4180), one row each: units are in the headings, base units
// throughout.

#include <span>
#include <string>
#include <string_view>

#include "tools/answer.h"

namespace flopcast {

/// A heading row, then one row per answer. Lines of the breakdown that one answer lacks are empty.
std::string csv_report(std::span<const Answer> answers);

/// "exposed tensor parallel" -> "exposed_tensor_parallel"
std::string heading_of(std::string name);

/// A field in quotes where it holds a comma, a quote or a line break.
std::string csv_field(std::string_view text);

}  // namespace flopcast
