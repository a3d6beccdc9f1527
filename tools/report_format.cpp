#include "tools/report_format.h"

#include "tools/choice.h"
#include "tools/csv_report.h"
#include "tools/json_report.h"
#include "tools/markdown_report.h"
#include "tools/table_report.h"

namespace flopcast {
namespace {

constexpr Choice<ReportFormat> kFormats[] = {
    {"table", ReportFormat::table},
    {"json", ReportFormat::json},
    {"csv", ReportFormat::csv},
    {"md", ReportFormat::markdown},
};

/// One report per answer, an empty line between them.
template <class Report>
std::string joined(std::span<const Answer> answers, Report report) {
  std::string text;
  for (const Answer& answer : answers) {
    if (!text.empty()) text += "\n";
    text += report(answer);
  }
  return text;
}

}  // namespace

ReportFormat read_report_format(std::string_view name) {
  return read_choice<ReportFormat>("--format", name, kFormats);
}

std::string render(ReportFormat format, std::span<const Answer> answers, bool colour) {
  switch (format) {
    case ReportFormat::table:
      return joined(answers, [=](const Answer& one) { return table_report(one, colour); });
    case ReportFormat::json: return json_report(answers);
    case ReportFormat::csv: return csv_report(answers);
    case ReportFormat::markdown: return joined(answers, markdown_report);
  }
  return {};
}

}  // namespace flopcast
