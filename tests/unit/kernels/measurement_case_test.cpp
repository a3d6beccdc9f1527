#include "kernels/measurement_case.h"

#include <catch2/catch.hpp>

namespace flopcast {
namespace {

const GemmCase kGemm{.type = DataType::fp8, .pass = GemmPass::dgrad, .m = 64, .n = 32, .k = 16};

TEST_CASE("a key names every column of a case") {
  struct Row {
    MeasurementCase measured;
    std::string expected;
  };
  const CollectiveCase reduce{CollectiveKind::all_reduce, mebibytes(1), {8, 2}};
  const auto row = GENERATE_COPY(values<Row>({
      {kGemm, "op=gemm type=fp8 pass=dgrad m=64 n=32 k=16 groups=1"},
      {MemoryCase{MemoryOp::rope, 4, 8}, "op=rope rows=4 columns=8"},
      {AttentionCase{.heads = 4, .kv_heads = 2, .sequence = 128, .causal = false, .backward = true},
       "op=attention type=bf16 pass=backward batch=1 heads=4 kv_heads=2 sequence=128 head_dim=128 "
       "causal=0"},
      {HostCopyCase{false, kibibytes(4)}, "op=device_to_host size_bytes=4096"},
      {LaunchCase{true, 100}, "op=launch_graph kernels=100"},
      {reduce, "op=all_reduce size_bytes=1048576 ranks_per_node=8 nodes=2"},
      {InterferenceCase{MemoryCase{MemoryOp::rope, 4, 8}, reduce, true},
       "op=all_reduce size_bytes=1048576 ranks_per_node=8 nodes=2 beside_op=rope beside_rows=4 "
       "beside_columns=8"},
      {InterferenceCase{MemoryCase{MemoryOp::rope, 4, 8}, reduce, false},
       "op=rope rows=4 columns=8 beside_op=all_reduce beside_size_bytes=1048576 "
       "beside_ranks_per_node=8 beside_nodes=2"},
      {JitterCase{MemoryCase{MemoryOp::rope, 4, 8}}, "op=rope rows=4 columns=8 repeated=1"},
  }));
  CHECK(key(row.measured) == row.expected);
}

// By hand. GEMM: 2mnk; A and B in their type, C in 16 bits, or read and written in fp32 by wgrad
// (in 16 bits by the grouped call).
// Attention: 4 b h s^2 d, half under a mask, times 2.5 backward.
TEST_CASE("a case states its work and traffic") {
  struct Row {
    MeasurementCase measured;
    Flops work;
    Bytes moved;
  };
  const GemmCase wgrad{.pass = GemmPass::wgrad, .m = 64, .n = 32, .k = 16};
  GemmCase grouped = wgrad;
  grouped.groups = 2;
  const AttentionCase forward{.batch = 2, .heads = 4, .kv_heads = 2, .sequence = 256};
  AttentionCase backward = forward;
  backward.backward = true;
  const auto row = GENERATE_COPY(values<Row>({
      {kGemm, flops(2 * 32768.0), bytes(64 * 16 + 16 * 32 + 2 * 64 * 32)},
      {wgrad, flops(2 * 32768.0), bytes(2 * (64 * 16 + 16 * 32) + 8 * 64 * 32)},
      {grouped, flops(4 * 32768.0), bytes(2 * (2 * (64 * 16 + 16 * 32) + 4 * 64 * 32))},
      {forward, flops(4 * 8 * 65536.0 * 128 / 2), bytes(2 * (2.0 * 512 * 128 * (4 + 2)))},
      {backward, flops(2.5 * 4 * 8 * 65536.0 * 128 / 2), bytes(2 * (4.0 * 512 * 128 * (4 + 2)))},
      {MemoryCase{MemoryOp::triad, 16, 1024}, flops(0), bytes(3 * 4 * 16384)},
      // Adam reads gradient, parameter, two moments; writes those three in fp32, a copy in bf16.
      {MemoryCase{MemoryOp::adam, 16, 1024}, flops(0), bytes((16 + 12 + 2) * 16384)},
      {MemoryCase{MemoryOp::swiglu_backward, 16, 1024}, flops(0), bytes(2 * (2 + 1 + 2) * 16384)},
  }));
  CAPTURE(key(row.measured));
  CHECK(work(row.measured).work == row.work);
  CHECK(work(row.measured).moved == row.moved);
}

}  // namespace
}  // namespace flopcast
