// Contents of arrays: functions of seed and index (random_value.h), one thread per element.

#include "kernels/device_code.h"
#include "kernels/fill.h"
#include "kernels/random_value.h"

namespace flopcast {
namespace {

struct Filling {
  ArrayFill fill{};
  std::uint64_t seed = 0;
  std::int64_t count = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

__device__ float content(const Filling& f, std::int64_t index) {
  const auto at = static_cast<std::uint64_t>(index);
  switch (f.fill) {
    case ArrayFill::random: return random_value(f.seed, at);
    case ArrayFill::positive: return random_value(f.seed, at) / 2 + 1;
    default: return 0;
  }
}

template <class T>
__global__ void fill_kernel(T* to, Filling f) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index < f.count) to[index] = T(content(f, index));
}

__global__ void fill_index_kernel(std::int32_t* to, Filling f) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= f.count) return;
  const std::uint64_t column = random_bits(f.seed, static_cast<std::uint64_t>(index)) %
                               static_cast<std::uint64_t>(f.columns);
  to[index] =
      static_cast<std::int32_t>(f.fill == ArrayFill::position ? permuted_row(index, f.rows)
                                                              : static_cast<std::int64_t>(column));
}

template <class T>
void start(const Filling& f, void* address, cudaStream_t stream) {
  launch(stream, fill_kernel<T>, blocks_for(f.count, kThreads), static_cast<T*>(address), f);
}

void start(ArrayType type, const Filling& f, void* address, cudaStream_t stream) {
  switch (type) {
    case ArrayType::bf16: return start<__nv_bfloat16>(f, address, stream);
    case ArrayType::fp16: return start<__half>(f, address, stream);
    case ArrayType::fp32: return start<float>(f, address, stream);
    case ArrayType::fp8_e4m3: return start<__nv_fp8_e4m3>(f, address, stream);
    case ArrayType::fp8_e5m2: return start<__nv_fp8_e5m2>(f, address, stream);
    case ArrayType::int32:
      return launch(stream, fill_index_kernel, blocks_for(f.count, kThreads),
                    static_cast<std::int32_t*>(address), f);
  }
}

}  // namespace

void fill_array(const MemoryCase& memory, int array, void* address, cudaStream_t stream) {
  const ArraySpec spec = arrays(memory.op).at(static_cast<std::size_t>(array));
  start(spec.type,
        {spec.fill, static_cast<std::uint64_t>(array), elements(spec, memory), memory.rows,
         memory.columns},
        address, stream);
}

void fill_random(ArrayType type, std::uint64_t seed, std::int64_t count, void* address,
                 cudaStream_t stream) {
  start(type, {ArrayFill::random, seed, count, 0, 0}, address, stream);
}

}  // namespace flopcast
