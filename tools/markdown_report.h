#pragma once

// The answer as GitHub Markdown, for an issue or a design document.

#include <string>

#include "tools/answer.h"

namespace flopcast {

std::string markdown_report(const Answer& answer);

}  // namespace flopcast
