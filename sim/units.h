#pragma once

// Physical quantities as types. A value is held in base units: seconds, bytes, floating-point
// operations. Scale factors live in this header and in units.cpp, nowhere else.

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace flopcast {

/// Exponents of time (s), data (byte) and work (FLOP); `value` is in base units.
template <int T, int B, int F>
struct Quantity {
  double value = 0;

  friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
};

template <int T, int B, int F>
constexpr Quantity<T, B, F> operator+(Quantity<T, B, F> a, Quantity<T, B, F> b) {
  return {a.value + b.value};
}
template <int T, int B, int F>
constexpr Quantity<T, B, F> operator-(Quantity<T, B, F> a, Quantity<T, B, F> b) {
  return {a.value - b.value};
}
template <int T, int B, int F>
constexpr Quantity<T, B, F> operator*(Quantity<T, B, F> a, double k) {
  return {a.value * k};
}
template <int T, int B, int F>
constexpr Quantity<T, B, F> operator*(double k, Quantity<T, B, F> a) {
  return {a.value * k};
}
template <int T, int B, int F>
constexpr Quantity<T, B, F> operator/(Quantity<T, B, F> a, double k) {
  return {a.value / k};
}
/// The exponents add up; of likes' quotient remains a plain double.
template <int T, int B, int F, int T2, int B2, int F2>
constexpr Quantity<T + T2, B + B2, F + F2> operator*(Quantity<T, B, F> a, Quantity<T2, B2, F2> b) {
  return {a.value * b.value};
}
template <int T, int B, int F, int T2, int B2, int F2>
constexpr auto operator/(Quantity<T, B, F> a, Quantity<T2, B2, F2> b) {
  if constexpr (T == T2 && B == B2 && F == F2) {
    return a.value / b.value;
  } else {
    return Quantity<T - T2, B - B2, F - F2>{a.value / b.value};
  }
}

using Seconds = Quantity<1, 0, 0>;
using Bytes = Quantity<0, 1, 0>;
using Flops = Quantity<0, 0, 1>;            // a count: one fused multiply-add is 2
using BytesPerSecond = Quantity<-1, 1, 0>;  // of one direction of a link
using FlopsPerSecond = Quantity<-1, 0, 1>;  // dense, of a stated data type

constexpr Seconds seconds(double v) { return {v}; }
constexpr Seconds milliseconds(double v) { return {v * 1e-3}; }
constexpr Seconds microseconds(double v) { return {v * 1e-6}; }
constexpr Seconds nanoseconds(double v) { return {v * 1e-9}; }
constexpr Bytes bytes(double v) { return {v}; }
constexpr Bytes kilobytes(double v) { return {v * 1e3}; }
constexpr Bytes megabytes(double v) { return {v * 1e6}; }
constexpr Bytes gigabytes(double v) { return {v * 1e9}; }
constexpr Bytes kibibytes(double v) { return {v * 1024.0}; }
constexpr Bytes mebibytes(double v) { return {v * 1024.0 * 1024.0}; }
constexpr Bytes gibibytes(double v) { return {v * 1024.0 * 1024.0 * 1024.0}; }
constexpr Flops flops(double v) { return {v}; }
constexpr Flops teraflops(double v) { return {v * 1e12}; }
constexpr BytesPerSecond bytes_per_second(double v) { return {v}; }
constexpr BytesPerSecond gigabytes_per_second(double v) { return {v * 1e9}; }
constexpr BytesPerSecond gigabits_per_second(double v) { return {v * 1e9 / 8}; }
constexpr FlopsPerSecond flops_per_second(double v) { return {v}; }
constexpr FlopsPerSecond teraflops_per_second(double v) { return {v * 1e12}; }

constexpr double to_milliseconds(Seconds s) { return s.value * 1e3; }
constexpr double to_microseconds(Seconds s) { return s.value * 1e6; }
constexpr double to_gigabytes(Bytes b) { return b.value / 1e9; }
constexpr double to_gibibytes(Bytes b) { return b.value / (1024.0 * 1024.0 * 1024.0); }
constexpr double to_gigabytes_per_second(BytesPerSecond b) { return b.value / 1e9; }
constexpr double to_teraflops(Flops f) { return f.value / 1e12; }
constexpr double to_teraflops_per_second(FlopsPerSecond f) { return f.value / 1e12; }

/// Reads "450 GB/s", "400 Gb/s", "25 MiB", "3.5 us", "989 TFLOP/s". The unit is required; nothing
/// on a malformed number or a missing, unknown or wrong unit. GB is 1e9, GiB 2^30, Gb is bits.
template <class Q>
std::optional<Q> parse_quantity(std::string_view text);
template <>
std::optional<Seconds> parse_quantity<Seconds>(std::string_view text);
template <>
std::optional<Bytes> parse_quantity<Bytes>(std::string_view text);
template <>
std::optional<Flops> parse_quantity<Flops>(std::string_view text);
template <>
std::optional<BytesPerSecond> parse_quantity<BytesPerSecond>(std::string_view text);
template <>
std::optional<FlopsPerSecond> parse_quantity<FlopsPerSecond>(std::string_view text);

/// What a reader may write for a quantity of this kind, for error messages:
/// "a time such as \"3.5 us\"".
template <class Q>
std::string_view quantity_example();
template <>
std::string_view quantity_example<Seconds>();
template <>
std::string_view quantity_example<Bytes>();
template <>
std::string_view quantity_example<Flops>();
template <>
std::string_view quantity_example<BytesPerSecond>();
template <>
std::string_view quantity_example<FlopsPerSecond>();

/// Four significant digits with the unit that suits the size: "12.34 ms", "80.00 GB", "450.0 GB/s".
std::string to_text(Seconds value);
std::string to_text(Bytes value);
std::string to_text(Flops value);
std::string to_text(BytesPerSecond value);
std::string to_text(FlopsPerSecond value);

}  // namespace flopcast
