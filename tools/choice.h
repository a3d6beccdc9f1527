#pragma once

// An option's value that must be one of a few names.

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/document.h"
#include "scenarios/nearest.h"
#include "sim/errors.h"

namespace flopcast {

/// The kind of the name. Throws InputError with option, what was read, the nearest and all names.
template <class Kind>
Kind read_choice(std::string_view option, std::string_view name,
                 std::span<const Choice<Kind>> choices) {
  std::vector<std::string_view> names;
  for (const Choice<Kind>& choice : choices) {
    if (choice.name == name) return choice.value;
    names.push_back(choice.name);
  }
  throw InputError(fmt::format("{}: unknown value \"{}\"{} (one of: {})", option, name,
                               did_you_mean(name, names), fmt::join(names, ", ")));
}

}  // namespace flopcast
