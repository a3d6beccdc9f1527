#pragma once

// The error table of measured runs in its four formats.

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "scenarios/validation.h"
#include "tools/report_format.h"

namespace flopcast {

struct ValidationQuestion {
  ReportFormat format = ReportFormat::table;
  std::optional<std::size_t> worst{};  // list the largest errors with their breakdown
  bool left_out = false;               // list every run without an answer, and why
  bool colour = false;
};

std::string validation_report(const Validation& validation, std::span<const Trial> trials,
                              const ValidationQuestion& question);

}  // namespace flopcast
