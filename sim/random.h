#pragma once

// Random numbers as functions of a counter: the same on every machine and in any order of calls.

#include <cstdint>

namespace flopcast {

/// Finaliser of SplitMix64. Source: Steele, Lea and Flood, OOPSLA 2014, figure 16.
constexpr std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

inline constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15U;  // SplitMix64's step

/// Number `counter` of the sequence of `seed`.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t counter) {
  return mixed(mixed(seed + kGoldenGamma) ^ mixed(counter + 2 * kGoldenGamma));
}

/// In [0, 1), a multiple of 2^-53.
constexpr double random_unit(std::uint64_t bits) {
  return static_cast<double>(bits >> 11U) * 0x1p-53;
}

/// Normal with mean 0 and variance 1. Source: Box and Muller, Ann. Math. Stat. 29(2), 1958.
double random_normal(std::uint64_t bits);

/// exp(sigma z - sigma^2 / 2), z normal: a factor with the mean 1 and the logarithm's deviation
/// `sigma`.
double random_factor(double sigma, std::uint64_t bits);

}  // namespace flopcast
