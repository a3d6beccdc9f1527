#pragma once

// Where a number comes from. Of a chain of numbers the weakest link counts.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace flopcast {

enum class Evidence : std::uint8_t { assumed, fitted, measured };  // from weak to strong
inline constexpr std::array kEvidences{Evidence::assumed, Evidence::fitted, Evidence::measured};

constexpr Evidence weakest(Evidence a, Evidence b) { return std::min(a, b); }

constexpr std::string_view to_text(Evidence evidence) {
  switch (evidence) {
    case Evidence::assumed: return "assumed";
    case Evidence::fitted: return "fitted";
    case Evidence::measured: return "measured";
  }
  return {};
}

}  // namespace flopcast
