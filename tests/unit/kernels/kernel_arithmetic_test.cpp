// Every memory-bound kernel against its reference, run thread by thread on the host.

#include <catch2/catch.hpp>
#include <cstring>

#include "kernels/fill.h"
#include "kernels/memory_check.h"
#include "kernels/memory_launch.h"

namespace flopcast {
namespace {

struct alignas(16) Line {
  std::byte bytes[16];
};

// Arrays of a case in host memory, aligned as the device's are.
struct HostArrays {
  explicit HostArrays(const MemoryCase& memory) : scratch(memory_scratch(memory) / 16 + 1) {
    const auto& specs = arrays(memory.op);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      sizes.push_back(static_cast<std::size_t>(element_size(specs[i].type).value *
                                               static_cast<double>(elements(specs[i], memory))));
      contents.emplace_back(sizes.back() / 16 + 1);
      addresses.push_back(contents.back().data());
      fill_array(memory, static_cast<int>(i), addresses.back(), nullptr);
    }
  }
  std::vector<double> values(ArrayType type, std::size_t array) const {
    return decode(type, {contents[array].front().bytes, sizes[array]});
  }

  std::vector<std::vector<Line>> contents;
  std::vector<std::size_t> sizes;
  std::vector<void*> addresses;
  std::vector<Line> scratch;
};

TEST_CASE("arrays begin with the values that the reference takes") {
  for (const MemoryOp op : {MemoryOp::adam, MemoryOp::permute, MemoryOp::cross_entropy_forward}) {
    const MemoryCase memory{op, 5, 48};
    const HostArrays host(memory);
    const auto& specs = arrays(op);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const auto values = host.values(specs[i].type, i);
      for (std::size_t at = 0; at < values.size(); ++at) {
        REQUIRE(values[at] == initial_value(memory, static_cast<int>(i), std::int64_t(at)));
      }
    }
  }
}

// Columns below one pass of a block, above it, and as many as a norm may have.
TEST_CASE("kernels compute what their references do") {
  const auto columns = GENERATE(48, 2320, 5008, 16384);
  for (int op = 0; op < kMemoryOps; ++op) {
    const MemoryCase memory{static_cast<MemoryOp>(op), columns > 4096 ? 1 : 5, columns};
    HostArrays host(memory);
    launch_memory_op(memory, host.addresses, host.scratch.data(), nullptr);
    const auto& specs = arrays(memory.op);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!specs[i].written) continue;
      CAPTURE(to_text(memory.op), columns, i);
      CHECK(error_over_tolerance(memory, static_cast<int>(i), 0, host.values(specs[i].type, i)) <=
            1);
    }
  }
}

// More rows than blocks: a block has several, and its sums gather them.
TEST_CASE("sums over rows take all rows") {
  for (const MemoryOp op : {MemoryOp::rms_norm_backward, MemoryOp::layer_norm_backward}) {
    const MemoryCase memory{op, 2 * kReductionBlocks + 3, 16};
    HostArrays host(memory);
    launch_memory_op(memory, host.addresses, host.scratch.data(), nullptr);
    const std::size_t dgamma = host.addresses.size() - 1;
    CHECK(error_over_tolerance(memory, static_cast<int>(dgamma), 0,
                               host.values(ArrayType::fp32, dgamma)) <= 1);
  }
}

TEST_CASE("a wrong value is noticed") {
  const MemoryCase memory{MemoryOp::softmax, 2, 48};
  HostArrays host(memory);
  launch_memory_op(memory, host.addresses, host.scratch.data(), nullptr);
  auto values = host.values(ArrayType::bf16, 1);
  values[50] += 0.05;
  CHECK(error_over_tolerance(memory, 1, 0, values) > 1);
  values[50] = std::numeric_limits<double>::quiet_NaN();
  CHECK(error_over_tolerance(memory, 1, 0, values) > 1);
}

}  // namespace
}  // namespace flopcast
