#pragma once

// Pseudo-random choices for generated cases: the same on every machine for the same seed.

#include <cstddef>
#include <cstdint>

namespace flopcast::test {

/// SplitMix64. Source: Steele, Lea and Flood, OOPSLA 2014, figure 16.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// 0 .. count - 1
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(next() % count); }
  /// low .. high - 1
  std::size_t between(std::size_t low, std::size_t high) { return low + below(high - low); }
  /// 0 .. 1, 1 excluded
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool chance(double probability) { return unit() < probability; }

 private:
  std::uint64_t state_;
};

}  // namespace flopcast::test
