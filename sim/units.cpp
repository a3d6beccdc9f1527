#include "sim/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>

namespace flopcast {
namespace {

/// A unit's name and its size in base units. Each kind lists its units by rising size where the
/// same table serves for printing.
struct Unit {
  std::string_view name;
  double size;
};

constexpr double kBit = 1.0 / 8;
constexpr double kKibi = 1024.0;
constexpr double kMinute = 60;
constexpr double kHour = 60 * kMinute;
constexpr double kDay = 24 * kHour;

constexpr std::array kTimeUnits{
    Unit{"ns", 1e-9},     Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1},
    Unit{"min", kMinute}, Unit{"h", kHour}, Unit{"d", kDay},
};
constexpr std::array kByteUnits{
    Unit{"B", 1},
    Unit{"kB", 1e3},
    Unit{"KB", 1e3},
    Unit{"MB", 1e6},
    Unit{"GB", 1e9},
    Unit{"TB", 1e12},
    Unit{"PB", 1e15},
    Unit{"KiB", kKibi},
    Unit{"MiB", kKibi* kKibi},
    Unit{"GiB", kKibi* kKibi* kKibi},
    Unit{"TiB", kKibi* kKibi* kKibi* kKibi},
};
constexpr std::array kFlopUnits{
    Unit{"FLOP", 1},     Unit{"MFLOP", 1e6},  Unit{"GFLOP", 1e9},
    Unit{"TFLOP", 1e12}, Unit{"PFLOP", 1e15}, Unit{"EFLOP", 1e18},
};
constexpr std::array kBitUnits{
    Unit{"kb", 1e3 * kBit},
    Unit{"Mb", 1e6 * kBit},
    Unit{"Gb", 1e9 * kBit},
    Unit{"Tb", 1e12 * kBit},
};

// For printing: the largest unit that is not larger than the value.
constexpr std::array kPrintedBytes{
    Unit{"B", 1},    Unit{"kB", 1e3},  Unit{"MB", 1e6},
    Unit{"GB", 1e9}, Unit{"TB", 1e12}, Unit{"PB", 1e15},
};
constexpr std::array kPrintedTimes{
    Unit{"ns", 1e-9},
    Unit{"us", 1e-6},
    Unit{"ms", 1e-3},
    Unit{"s", 1},
};
// A step of 90 s reads better than one of 1.5 min, so these start late.
constexpr double kFirstMinutes = 10 * kMinute;
constexpr double kFirstHours = 2 * kHour;
constexpr double kFirstDays = 2 * kDay;

std::optional<double> unit_size(std::string_view name, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (unit.name == name) return unit.size;
  }
  return std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

struct NumberAndUnit {
  double number = 0;
  std::string_view unit;
};

std::optional<NumberAndUnit> split(std::string_view text) {
  text = trimmed(text);
  NumberAndUnit parts;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parts.number);
  if (error != std::errc{} || !std::isfinite(parts.number)) return std::nullopt;
  parts.unit = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  return parts;
}

std::optional<double> parse(std::string_view text, std::span<const Unit> units) {
  const auto parts = split(text);
  if (!parts) return std::nullopt;
  const auto size = unit_size(parts->unit, units);
  if (!size) return std::nullopt;
  return parts->number * *size;
}

/// Like parse, for a unit per second: "GB/s" is looked up as "GB".
std::optional<double> parse_rate(std::string_view text, std::span<const Unit> units) {
  constexpr std::string_view kPerSecond = "/s";
  text = trimmed(text);
  if (!text.ends_with(kPerSecond)) return std::nullopt;
  return parse(text.substr(0, text.size() - kPerSecond.size()), units);
}

/// From this part of a power of ten on, four digits round up to it.
constexpr double kRoundsUp = 1 - 0.5e-4;

std::string four_digits(double value, std::string_view unit, std::string_view suffix) {
  const double magnitude = std::abs(value);
  const int before_point =
      magnitude > 0 ? static_cast<int>(std::floor(std::log10(magnitude / kRoundsUp))) + 1 : 1;
  const int decimals = before_point >= 4 ? 0 : 4 - before_point;
  return fmt::format("{:.{}f} {}{}", value, decimals, unit, suffix);
}

/// Where the value, rounded to four digits, reaches the unit: 999.96 MB is 1.000 GB.
bool reaches(double value, double unit) { return std::abs(value) >= unit * kRoundsUp; }

std::string print(double value, std::span<const Unit> units, std::string_view suffix) {
  if (!std::isfinite(value) || value == 0) {
    return fmt::format("{} {}{}", value, units.front().name, suffix);
  }
  const Unit* best = &units.front();
  for (const Unit& unit : units) {
    if (reaches(value, unit.size)) best = &unit;
  }
  return four_digits(value / best->size, best->name, suffix);
}

}  // namespace

template <>
std::optional<Seconds> parse_quantity<Seconds>(std::string_view text) {
  const auto value = parse(text, kTimeUnits);
  return value ? std::optional(Seconds{*value}) : std::nullopt;
}

template <>
std::optional<Bytes> parse_quantity<Bytes>(std::string_view text) {
  const auto value = parse(text, kByteUnits);
  return value ? std::optional(Bytes{*value}) : std::nullopt;
}

template <>
std::optional<Flops> parse_quantity<Flops>(std::string_view text) {
  const auto value = parse(text, kFlopUnits);
  return value ? std::optional(Flops{*value}) : std::nullopt;
}

template <>
std::optional<BytesPerSecond> parse_quantity<BytesPerSecond>(std::string_view text) {
  auto value = parse_rate(text, kByteUnits);
  if (!value) value = parse_rate(text, kBitUnits);
  return value ? std::optional(BytesPerSecond{*value}) : std::nullopt;
}

template <>
std::optional<FlopsPerSecond> parse_quantity<FlopsPerSecond>(std::string_view text) {
  const auto value = parse_rate(text, kFlopUnits);
  return value ? std::optional(FlopsPerSecond{*value}) : std::nullopt;
}

template <>
std::string_view quantity_example<Seconds>() {
  return "a time such as \"3.5 us\"";
}
template <>
std::string_view quantity_example<Bytes>() {
  return "a size such as \"80 GB\" or \"25 MiB\"";
}
template <>
std::string_view quantity_example<Flops>() {
  return "a count of operations such as \"2.5 TFLOP\"";
}
template <>
std::string_view quantity_example<BytesPerSecond>() {
  return "a bandwidth such as \"450 GB/s\" or \"400 Gb/s\"";
}
template <>
std::string_view quantity_example<FlopsPerSecond>() {
  return "a compute rate such as \"989 TFLOP/s\"";
}

std::string to_text(Seconds value) {
  const double magnitude = std::abs(value.value);
  if (magnitude >= kFirstDays) return four_digits(value.value / kDay, "d", "");
  if (magnitude >= kFirstHours) return four_digits(value.value / kHour, "h", "");
  if (magnitude >= kFirstMinutes) return four_digits(value.value / kMinute, "min", "");
  if (magnitude == 0) return "0 s";
  return print(value.value, kPrintedTimes, "");
}

std::string to_text(Bytes value) { return print(value.value, kPrintedBytes, ""); }
std::string to_text(Flops value) { return print(value.value, kFlopUnits, ""); }
std::string to_text(BytesPerSecond value) { return print(value.value, kPrintedBytes, "/s"); }
std::string to_text(FlopsPerSecond value) { return print(value.value, kFlopUnits, "/s"); }

}  // namespace flopcast
