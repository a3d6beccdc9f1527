#include "calibration/kernel_samples.h"

#include <cstdint>
#include <initializer_list>

#include "sim/random.h"

namespace flopcast {
namespace {

// A quarter of all shapes, by SplitMix64 chained over the numbers.
bool chosen(std::initializer_list<std::int64_t> shape) {
  std::uint64_t state = 0;
  for (const std::int64_t value : shape) {
    state = mixed((state ^ static_cast<std::uint64_t>(value)) + kGoldenGamma);
  }
  return state % 4 == 0;
}

}  // namespace

bool held_back(const GemmSample& sample) {
  const GemmShape& shape = sample.shape;
  return chosen({shape.m, shape.n, shape.k, shape.batch});
}

bool held_back(const AttentionSample& sample) {
  const AttentionShape& s = sample.shape;
  return chosen({s.batch, s.heads, s.queries, s.keys, s.qk_dim, s.v_dim});
}

bool held_back(const MemoryKernelSample& sample) {
  return chosen({static_cast<std::int64_t>(sample.moved.value)});
}

bool held_back(const ExpertSample& sample) {
  const ExpertLayerShape& s = sample.shape;
  return chosen({s.tokens, s.hidden, s.inner, s.chosen, s.experts, s.tp, s.ep});
}

}  // namespace flopcast
