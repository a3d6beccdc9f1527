#pragma once

// The answer for programs: every quantity a number in base units, its unit in the key's name.
// "schema_version" rises when a key changes its meaning or goes; new keys may come at any time.

#include <span>
#include <string>

#include "tools/answer.h"

namespace flopcast {

/// One object for one answer, an array for several.
std::string json_report(std::span<const Answer> answers);

}  // namespace flopcast
