#pragma once

// The inputs of every measurement: uniform in [-1, 1), a function of seed and index alone, so that
// the host knows each element without reading it back. Random data, since a GPU takes less power
// and clocks higher on zeros. Only for sources of this folder.

#include <cstdint>

#ifdef __CUDACC__
#define FLOPCAST_HOST_DEVICE __host__ __device__
#else
#define FLOPCAST_HOST_DEVICE
#endif

namespace flopcast {

/// Bits of a counter: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
FLOPCAST_HOST_DEVICE constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = (seed << 40) + index + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// A multiple of 2^-23, exact in fp32.
FLOPCAST_HOST_DEVICE constexpr float random_value(std::uint64_t seed, std::uint64_t index) {
  return static_cast<float>(random_bits(seed, index) >> 40) * (1.0F / 8388608.0F) - 1.0F;
}

/// Whether dropout keeps this element: 9 of 10 do.
FLOPCAST_HOST_DEVICE constexpr bool keeps(std::uint64_t index) {
  return (random_bits(77, index) >> 32) >= 0x1999999aULL;
}

/// The row from which a permutation of `rows` rows takes row `row`: steps of a large odd prime,
/// which visit every row as long as `rows` is no multiple of it.
FLOPCAST_HOST_DEVICE constexpr std::int64_t permuted_row(std::int64_t row, std::int64_t rows) {
  return (row * 1000003 + 17) % rows;
}

}  // namespace flopcast
