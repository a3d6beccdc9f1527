#pragma once

// What became of a batch of scenarios, for people and for CI.

#include <span>
#include <string>

#include "scenarios/batch.h"

namespace flopcast {

/// "step_time 6.214 s is above 5.900 s": metric, value and bound of an expectation that failed.
std::string failure_text(const ExpectationResult& result);
/// All that speaks against a trial, a line each.
std::string problem_text(const Trial& trial);
/// "3 of 5 passed, 1 failed, 1 wrong".
std::string batch_summary(std::span<const Trial> trials);

/// One line per scenario and expectation, the problems below, the summary last.
std::string batch_table(std::span<const Trial> trials, bool colour);
std::string batch_markdown(std::span<const Trial> trials);
/// JUnit XML as Jenkins' JUnit plugin and Maven Surefire define it: one suite, a case for each
/// scenario. An expectation that failed is a failure, or skipped where that is allowed; a scenario
/// without an answer is an error.
std::string junit_report(std::span<const Trial> trials);

}  // namespace flopcast
