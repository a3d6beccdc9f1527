#pragma once

// The name a user most likely meant.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace flopcast {

/// Edits (insert, delete, replace, swap of neighbours) between two names; letter case counts half.
/// Optimal string alignment: F. J. Damerau, Comm. ACM 7(3), 1964, without edits inside a swap.
double edit_distance(std::string_view a, std::string_view b);

/// The known name with the fewest edits, if that is at most a third of its letters (one for short
/// names) or if one name begins with the other. The first of equals; nothing where none is near.
std::optional<std::string_view> nearest(std::string_view name,
                                        std::span<const std::string_view> known);

/// `; did you mean "tp"?`, or nothing.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known);

}  // namespace flopcast
