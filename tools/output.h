#pragma once

// Where the answer goes: a file, or standard output with colour where a person looks at it.

#include <optional>
#include <string>
#include <string_view>

namespace flopcast {

/// Whether standard output is a terminal that shows colour. NO_COLOR (no-color.org) is honoured.
bool terminal_shows_colour();

/// Writes to the file, or to standard output without one. Throws IoError with name and reason.
void write_output(const std::optional<std::string>& file, std::string_view text);

}  // namespace flopcast
