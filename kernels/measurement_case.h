#pragma once

// What can be measured: one case is one kernel or collective at one shape. A case is a value; its
// fields name it in the record file, so that a later run knows what is already there.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "sim/collective_kind.h"
#include "sim/data_type.h"
#include "sim/units.h"

namespace flopcast {

/// C[m,n] = A[m,k] B[k,n] as a linear layer with weight W[out,in] and rows of tokens uses it:
///   forward Y = X W^T    (m tokens, n out, k in), 16-bit or fp8 in, 16-bit out
///   dgrad   dX = dY W    (m tokens, n in, k out)
///   wgrad   dW += dY^T X (m out, n in, k tokens), added to fp32 gradients (groups: to bf16)
enum class GemmPass : std::uint8_t { forward, dgrad, wgrad };

struct GemmCase {
  DataType type = DataType::bf16;
  GemmPass pass = GemmPass::forward;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t groups = 1;  // of that shape each, in one grouped call
};

/// Fused attention in bf16, as many keys as queries.
struct AttentionCase {
  std::int64_t batch = 1;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t sequence = 0;
  std::int64_t head_dim = 128;
  bool causal = true;
  bool backward = false;
};

/// Kernels bound by memory; memory_reference.h says what each computes and moves.
enum class MemoryOp : std::uint8_t {
  copy,
  triad,
  rms_norm_forward,
  rms_norm_backward,
  layer_norm_forward,
  layer_norm_backward,
  swiglu_forward,
  swiglu_backward,
  rope,
  softmax,
  cross_entropy_forward,
  cross_entropy_backward,
  residual_dropout,
  cast,
  quantise_fp8,
  permute,
  adam,
  gradient_norm,
};
inline constexpr int kMemoryOps = 18;

/// `columns` elements in each of `rows` rows: a multiple of 8, at most 16384 for the norms.
struct MemoryCase {
  MemoryOp op = MemoryOp::copy;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// Between page-locked host memory and the device.
struct HostCopyCase {
  bool to_device = true;
  Bytes size;
};

/// Host time per empty kernel of a queue of `kernels`, launched one by one or as one CUDA graph.
struct LaunchCase {
  bool graph = false;
  std::int64_t kernels = 0;
};

/// Every rank of the job is in one group of this shape; all groups run at once. `size` is the whole
/// buffer as nccl-tests count it.
struct CollectiveCase {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes size;
  GroupShape group;
};

/// A kernel and a collective side by side on two streams; which of the two is timed.
struct InterferenceCase {
  std::variant<GemmCase, MemoryCase> kernel;
  CollectiveCase collective;
  bool time_collective = false;
};

/// The spread of one thing done again and again: back to back, warm, a fixed number of times.
struct JitterCase {
  std::variant<GemmCase, MemoryCase, CollectiveCase> repeated;
};

using MeasurementCase = std::variant<GemmCase, AttentionCase, MemoryCase, HostCopyCase, LaunchCase,
                                     CollectiveCase, InterferenceCase, JitterCase>;

/// A column of the record: what identifies the case.
struct CaseField {
  std::string name;
  std::variant<std::int64_t, std::string> value;
};

/// "op" first; sizes end in "_bytes".
std::vector<CaseField> fields(const MeasurementCase& measured);

/// "op=gemm type=bf16 pass=forward m=4096 n=4096 k=4096 groups=1"
std::string key(const MeasurementCase& measured);

/// Least work and traffic that the case takes: FLOPs (a multiply-add is 2; a causal mask halves)
/// and bytes read and written, each array once.
struct CaseWork {
  Flops work;
  Bytes moved;
};
CaseWork work(const MeasurementCase& measured);

std::string_view to_text(MemoryOp op);

}  // namespace flopcast
