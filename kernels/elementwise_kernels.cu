// SwiGLU forward and backward, rotary embedding, residual with dropout, Adam: a thread per vector
// of elements.

#include "kernels/device_code.h"
#include "kernels/memory_launch.h"
#include "kernels/memory_reference.h"
#include "kernels/random_value.h"

namespace flopcast {
namespace {

using Bf16 = __nv_bfloat16;

// First element of this thread's vector.
__device__ std::int64_t vector_start() {
  return (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVector;
}

// x[row] = gate, up; y = gate * sigmoid(gate) * up
__global__ void swiglu_forward_kernel(const Bf16* x, Bf16* y, std::int64_t rows,
                                      std::int64_t columns) {
  const std::int64_t at = vector_start();
  if (at >= rows * columns) return;
  const Bf16* gate_at = x + at / columns * 2 * columns + at % columns;
  float gate[kVector];
  float up[kVector];
  load(gate_at, gate);
  load(gate_at + columns, up);
  for (int i = 0; i < kVector; ++i) up[i] *= gate[i] / (1 + expf(-gate[i]));
  store(y + at, up);
}

__global__ void swiglu_backward_kernel(const Bf16* x, const Bf16* dy, Bf16* dx, std::int64_t rows,
                                       std::int64_t columns) {
  const std::int64_t at = vector_start();
  if (at >= rows * columns) return;
  const std::int64_t gate_at = at / columns * 2 * columns + at % columns;
  float gate[kVector];
  float up[kVector];
  float gradient[kVector];
  load(x + gate_at, gate);
  load(x + gate_at + columns, up);
  load(dy + at, gradient);
  for (int i = 0; i < kVector; ++i) {
    const float s = 1 / (1 + expf(-gate[i]));
    const float of_gate = gradient[i] * up[i] * s * (1 + gate[i] * (1 - s));
    up[i] = gradient[i] * gate[i] * s;
    gate[i] = of_gate;
  }
  store(dx + gate_at, gate);
  store(dx + gate_at + columns, up);
}

// A thread turns a vector of the row's lower half with its partner in the upper half.
__global__ void rope_kernel(const Bf16* x, const float* cosine, const float* sine, Bf16* y,
                            std::int64_t rows, std::int64_t columns) {
  const std::int64_t half = columns / 2;
  const std::int64_t at = vector_start();
  if (at >= rows * half) return;
  const std::int64_t low_column = at % half;
  const std::int64_t low_at = at / half * columns + low_column;
  float low[kVector];
  float high[kVector];
  float c[2][kVector];
  float s[2][kVector];
  load(x + low_at, low);
  load(x + low_at + half, high);
  load(cosine + low_column, c[0]);
  load(cosine + low_column + half, c[1]);
  load(sine + low_column, s[0]);
  load(sine + low_column + half, s[1]);
  for (int i = 0; i < kVector; ++i) {
    const float turned = low[i] * c[0][i] - high[i] * s[0][i];
    high[i] = high[i] * c[1][i] + low[i] * s[1][i];
    low[i] = turned;
  }
  store(y + low_at, low);
  store(y + low_at + half, high);
}

__global__ void residual_dropout_kernel(const Bf16* x, const Bf16* residual, Bf16* y,
                                        std::int64_t size) {
  const std::int64_t at = vector_start();
  if (at >= size) return;
  float value[kVector];
  float sum[kVector];
  load(x + at, value);
  load(residual + at, sum);
  constexpr float kScale = static_cast<float>(1 / (1 - kDropout));
  for (int i = 0; i < kVector; ++i) {
    if (keeps(static_cast<std::uint64_t>(at + i))) sum[i] += value[i] * kScale;
  }
  store(y + at, sum);
}

// AdamW at its first step, as memory_reference.cpp has it.
__global__ void adam_kernel(const float* gradient, float* parameter, float* first, float* second,
                            Bf16* copy, std::int64_t size, AdamConstants k) {
  const std::int64_t at = vector_start();
  if (at >= size) return;
  float g[kVector];
  float p[kVector];
  float m[kVector];
  float v[kVector];
  load(gradient + at, g);
  load(parameter + at, p);
  load(first + at, m);
  load(second + at, v);
  for (int i = 0; i < kVector; ++i) {
    m[i] = k.beta1 * m[i] + (1 - k.beta1) * g[i];
    v[i] = k.beta2 * v[i] + (1 - k.beta2) * g[i] * g[i];
    const float direction = m[i] / (1 - k.beta1) / (sqrtf(v[i] / (1 - k.beta2)) + k.epsilon);
    p[i] -= k.learning_rate * (direction + k.weight_decay * p[i]);
  }
  store(parameter + at, p);
  store(first + at, m);
  store(second + at, v);
  store(copy + at, p);
}

}  // namespace

void launch_elementwise_op(const MemoryCase& memory, std::span<void* const> arrays,
                           cudaStream_t stream) {
  const auto half = [&](int array) { return static_cast<Bf16*>(arrays[array]); };
  const auto full = [&](int array) { return static_cast<float*>(arrays[array]); };
  const std::int64_t rows = memory.rows;
  const std::int64_t columns = memory.columns;
  const std::int64_t size = rows * columns;
  const std::int64_t blocks = blocks_for(size, kThreads * kVector);
  if (memory.op == MemoryOp::swiglu_forward) {
    launch(stream, swiglu_forward_kernel, blocks, half(0), half(1), rows, columns);
  } else if (memory.op == MemoryOp::swiglu_backward) {
    launch(stream, swiglu_backward_kernel, blocks, half(0), half(1), half(2), rows, columns);
  } else if (memory.op == MemoryOp::rope) {
    launch(stream, rope_kernel, blocks_for(size / 2, kThreads * kVector), half(0), full(1), full(2),
           half(3), rows, columns);
  } else if (memory.op == MemoryOp::residual_dropout) {
    launch(stream, residual_dropout_kernel, blocks, half(0), half(1), half(2), size);
  } else {
    launch(stream, adam_kernel, blocks, full(0), full(1), full(2), full(3), half(4), size,
           AdamConstants{});
  }
}

}  // namespace flopcast
