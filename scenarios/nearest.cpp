#include "scenarios/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace flopcast {
namespace {

// Names of files and models are short; more is not a slip of the pen.
constexpr std::size_t kLongestName = 100;

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

double substitution(char a, char b) {
  if (a == b) return 0;
  return lower(a) == lower(b) ? 0.5 : 1;
}

bool begins_with(std::string_view longer, std::string_view shorter) {
  // Two letters begin too many names.
  return shorter.size() >= 3 && longer.starts_with(shorter);
}

}  // namespace

double edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: two back for swaps, the last, the one being filled.
  std::vector<double> two_back(b.size() + 1);
  std::vector<double> last(b.size() + 1);
  std::vector<double> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<double>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<double>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + substitution(a[i - 1], b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
    two_back.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::optional<std::string_view> nearest(std::string_view name,
                                        std::span<const std::string_view> known) {
  if (name.empty() || name.size() > kLongestName) return std::nullopt;
  std::optional<std::string_view> best;
  double best_distance = 0;
  for (const std::string_view candidate : known) {
    const double distance = edit_distance(name, candidate);
    if (!best || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  const double allowed = std::max(1.0, static_cast<double>(name.size()) / 3);
  if (best && best_distance <= allowed && best_distance < static_cast<double>(best->size())) {
    return best;
  }
  for (const std::string_view candidate : known) {
    if (begins_with(candidate, name) || begins_with(name, candidate)) return candidate;
  }
  return std::nullopt;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> known) {
  const auto near = nearest(name, known);
  return near ? fmt::format("; did you mean \"{}\"?", *near) : std::string();
}

}  // namespace flopcast
