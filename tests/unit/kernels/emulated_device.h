#pragma once

// Runs the kernels of kernels/*.cu on the host, to test their arithmetic where there is no GPU:
// blocks one after the other, the threads of a block as fibers that take turns at __syncthreads().
// One order of the threads is tried, the ascending one: races do not show.

#include <ucontext.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include <driver_types.h>

// Empty outside nvcc. A block's shared memory is the function's own, and blocks do not overlap.
#undef __shared__
#define __shared__ static

namespace flopcast {

struct Index {
  unsigned x = 0;
};
inline Index threadIdx;
inline Index blockIdx;
inline Index gridDim;

/// The threads of the block that runs.
class Block {
 public:
  explicit Block(std::function<void()> body) : body_(std::move(body)), fibers_(kFibers) {
    stacks_.resize(kFibers * kStack);
  }

  void run() {
    running = this;
    for (unsigned i = 0; i < kFibers; ++i) {
      Fiber& fiber = fibers_[i];
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = stacks_.data() + i * kStack;
      fiber.context.uc_stack.ss_size = kStack;
      fiber.context.uc_link = &scheduler_;
      fiber.done = false;
      makecontext(&fiber.context, &Block::enter, 0);
    }
    for (bool any = true; any;) {  // one pass takes every thread to its next barrier
      any = false;
      for (unsigned i = 0; i < kFibers; ++i) {
        if (fibers_[i].done) continue;
        any = true;
        threadIdx.x = i;
        swapcontext(&scheduler_, &fibers_[i].context);
      }
    }
  }

  void wait() {
    const unsigned self = threadIdx.x;
    swapcontext(&fibers_[self].context, &scheduler_);
  }

  static inline Block* running = nullptr;

 private:
  static constexpr unsigned kFibers = 256;
  static constexpr std::size_t kStack = 65536;
  struct Fiber {
    ucontext_t context{};
    bool done = false;
  };

  static void enter() {
    running->body_();
    running->fibers_[threadIdx.x].done = true;
  }

  std::function<void()> body_;
  std::vector<Fiber> fibers_;
  std::vector<char> stacks_;
  ucontext_t scheduler_{};
};

inline void __syncthreads() { Block::running->wait(); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }

template <class... P, class... A>
void launch(cudaStream_t, void (*kernel)(P...), std::int64_t blocks, A... arguments) {
  gridDim.x = static_cast<unsigned>(blocks);
  Block block([&] { kernel(arguments...); });
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) block.run();
}

}  // namespace flopcast
