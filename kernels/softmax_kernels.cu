// Softmax over rows, and cross-entropy with its gradient. A block per row; the second pass over the
// row finds it in the L2 cache.

#include "kernels/device_code.h"
#include "kernels/memory_launch.h"

namespace flopcast {
namespace {

using Bf16 = __nv_bfloat16;

// log of the sum of exp over a row, in one pass: the largest value so far and the sum relative to
// it (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018).
__device__ float log_sum_exp(const Bf16* row, std::int64_t columns) {
  float largest = -1e30F;  // below every logit, and far from infinity
  float sum = 0;
  for (std::int64_t c = std::int64_t{threadIdx.x} * kVector; c < columns; c += kThreads * kVector) {
    float x[kVector];
    load(row + c, x);
    float here = largest;
    for (int i = 0; i < kVector; ++i) here = Largest{}(here, x[i]);
    sum *= expf(largest - here);
    for (int i = 0; i < kVector; ++i) sum += expf(x[i] - here);
    largest = here;
  }
  const float overall = over_block(largest, Largest{});
  return overall + logf(over_block(sum * expf(largest - overall), Add{}));
}

// y = exp(x - lse), less 1 at the target of the row where there is one.
__device__ void write_probability(const Bf16* row, Bf16* to, std::int64_t columns, float lse,
                                  std::int64_t target) {
  for (std::int64_t c = std::int64_t{threadIdx.x} * kVector; c < columns; c += kThreads * kVector) {
    float x[kVector];
    load(row + c, x);
    for (int i = 0; i < kVector; ++i) x[i] = expf(x[i] - lse) - (c + i == target ? 1.0F : 0.0F);
    store(to + c, x);
  }
}

__global__ void softmax_kernel(const Bf16* x, Bf16* y, std::int64_t columns) {
  const std::int64_t start = std::int64_t{blockIdx.x} * columns;
  write_probability(x + start, y + start, columns, log_sum_exp(x + start, columns), -1);
}

__global__ void cross_entropy_forward_kernel(const Bf16* logits, const std::int32_t* target,
                                             float* loss, float* lse, std::int64_t columns) {
  const Bf16* row = logits + std::int64_t{blockIdx.x} * columns;
  const float sum = log_sum_exp(row, columns);
  if (threadIdx.x != 0) return;
  lse[blockIdx.x] = sum;
  loss[blockIdx.x] = sum - __bfloat162float(row[target[blockIdx.x]]);
}

__global__ void cross_entropy_backward_kernel(const Bf16* logits, const std::int32_t* target,
                                              const float* lse, Bf16* gradient,
                                              std::int64_t columns) {
  const std::int64_t start = std::int64_t{blockIdx.x} * columns;
  write_probability(logits + start, gradient + start, columns, lse[blockIdx.x], target[blockIdx.x]);
}

}  // namespace

void launch_softmax_op(const MemoryCase& memory, std::span<void* const> arrays,
                       cudaStream_t stream) {
  const auto* x = static_cast<const Bf16*>(arrays[0]);
  if (memory.op == MemoryOp::softmax) {
    launch(stream, softmax_kernel, memory.rows, x, static_cast<Bf16*>(arrays[1]), memory.columns);
    return;
  }
  const auto* target = static_cast<const std::int32_t*>(arrays[1]);
  auto* third = static_cast<float*>(arrays[2]);
  if (memory.op == MemoryOp::cross_entropy_forward) {
    launch(stream, cross_entropy_forward_kernel, memory.rows, x, target, third,
           static_cast<float*>(arrays[3]), memory.columns);
  } else {
    launch(stream, cross_entropy_backward_kernel, memory.rows, x, target, third,
           static_cast<Bf16*>(arrays[3]), memory.columns);
  }
}

}  // namespace flopcast
