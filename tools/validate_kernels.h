#pragma once

// `flopcast validate kernels`: kernel curves against published kernel times.

#include "tools/verbs.h"

namespace flopcast {

Verb add_validate_kernels(CLI::App& validate_verb);

}  // namespace flopcast
