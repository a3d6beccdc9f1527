#pragma once

// `flopcast validate collectives`: the network model against measured tables.

#include <functional>

#include "tools/verbs.h"

namespace flopcast {

/// Adds the subcommand; the returned action runs it.
Verb add_validate_collectives(CLI::App& validate);

}  // namespace flopcast
