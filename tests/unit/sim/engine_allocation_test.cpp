#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "sim/engine.h"
#include "small_workload.h"

using namespace flopcast;
using namespace flopcast::test;

// Counts every allocation of this test program.
namespace {
std::size_t allocations = 0;
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc{};
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace {

/// A pair of ranks: kernels beside collectives that share a full link, and messages.
Workload busy_workload(int steps) {
  constexpr LabelId kLabel{0};
  SmallWorkload small;
  const KernelId kernel = small.kernel(microseconds(3));
  const TransferId transfer = small.transfer({.latency = microseconds(1),
                                              .size = megabytes(1),
                                              .solo_rate = gigabytes_per_second(80),
                                              .compute_share = 0.2});
  const LinkId link = small.link(gigabytes_per_second(100));
  const GroupId both = small.group({RankId{0}, RankId{1}}, {{link, 1}});
  const GroupId pair = small.group({RankId{0}, RankId{1}}, {{link, 1}});
  for (const bool sends : {true, false}) {
    ProgramBuilder program(3);
    for (int i = 0; i < steps; ++i) {
      program.allocate(kMain, CategoryId{1}, 10);
      program.compute(kMain, kernel, kCompute, kLabel);
      program.order(kMain, kSide);
      program.collective(kSide, 0, transfer, kCommunication, kLabel);
      if (sends) {
        program.send(kThird, 1, 0, transfer, kCommunication, kLabel);
      } else {
        program.recv(kThird, 1, 0, kCommunication, kLabel);
      }
      program.release(kMain, CategoryId{1}, 10);
    }
    small.rank(std::move(program), {both, pair}, sends ? 1 : 0.9);
  }
  return small.workload;
}

std::size_t allocations_of(const Workload& workload) {
  const std::size_t before = allocations;
  const Result result = run(workload);
  const std::size_t after_run = allocations;
  CHECK(result.events > 0);
  return after_run - before;
}

}  // namespace

TEST_CASE("a longer run allocates no more often") {
  // Only the flat list of ops grows with the program, by doubling: 8 times the steps, 3 more.
  const std::size_t few = allocations_of(busy_workload(500));
  const std::size_t many = allocations_of(busy_workload(4000));
  CAPTURE(few, many);
  CHECK(many <= few + 3);
}
