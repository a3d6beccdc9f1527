#pragma once

// The formats in which answers are written.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tools/answer.h"

namespace flopcast {

enum class ReportFormat : std::uint8_t { table, json, csv, markdown };

/// By the names of `--format`. Throws InputError with the nearest name.
ReportFormat read_report_format(std::string_view name);

std::string render(ReportFormat format, std::span<const Answer> answers, bool colour);

}  // namespace flopcast
