#pragma once

// `flopcast validate` itself: forecasts against measured runs.

#include <functional>

#include "tools/verbs.h"

namespace flopcast {

/// Gives the verb its own options; the action runs it where no subcommand was asked for.
std::function<ExitCode()> add_validate_runs(CLI::App& validate);

}  // namespace flopcast
