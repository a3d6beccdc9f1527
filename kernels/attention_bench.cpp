#include "kernels/attention_bench.h"

#include <fmt/core.h>

#include "sim/errors.h"

#ifdef FLOPCAST_HAS_CUDNN

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/attention_reference.h"
#include "kernels/cudnn_graph.h"
#include "kernels/fill.h"
#include "kernels/memory_bench.h"
#include "kernels/memory_check.h"

namespace flopcast {
namespace {

using Tensor = CudnnGraph::Tensor;

// Two bf16 roundings on the way (P and the result) of sums of values below 1.
constexpr double kTolerance = 0.02;

struct AttentionArrays {
  explicit AttentionArrays(const AttentionCase& a)
      : queries(static_cast<std::size_t>(a.batch * a.heads * a.sequence * a.head_dim)),
        keys(static_cast<std::size_t>(a.batch * a.kv_heads * a.sequence * a.head_dim)),
        rows(static_cast<std::size_t>(a.batch * a.heads * a.sequence)) {}
  std::size_t queries;
  std::size_t keys;
  std::size_t rows;
  DeviceMemory q{2 * queries}, k{2 * keys}, v{2 * keys}, o{2 * queries};
  DeviceMemory log_sum{4 * rows};
  DeviceMemory output_gradient{2 * queries}, dq{2 * queries}, dk{2 * keys}, dv{2 * keys};
  DeviceMemory row_sum{4 * rows};    // dO . O
  DeviceMemory dq_sum{4 * queries};  // dQ in fp32, to which blocks of keys add
};

// The documented pattern of fused attention (cuDNN developer guide, "Fused Flash Attention"), as
// operations on [batch, heads, sequence, ...].
class AttentionGraph {
 public:
  AttentionGraph(const AttentionCase& a, const AttentionArrays& arrays, cudaStream_t stream)
      : a_(a),
        arrays_(arrays),
        graph_(stream),
        of_queries_(packed(a.batch, a.heads, a.sequence, a.head_dim)),
        of_keys_(packed(a.batch, a.kv_heads, a.sequence, a.head_dim)),
        scores_(packed(a.batch, a.heads, a.sequence, a.sequence)),
        of_rows_(packed(a.batch, a.heads, a.sequence, 1)),
        scale_(graph_.number(1 / std::sqrt(static_cast<float>(a.head_dim)))) {}

  void forward() {
    const Tensor score = masked_scores();
    const Tensor largest = fp32(of_rows_);
    graph_.reduce(CUDNN_REDUCE_TENSOR_MAX, score, largest);
    const Tensor shifted = step(CUDNN_POINTWISE_SUB, score, largest, scores_);
    const Tensor exponential = step(CUDNN_POINTWISE_EXP, shifted, nullptr, scores_);
    const Tensor sum = fp32(of_rows_);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, sum);
    const Tensor logarithm = step(CUDNN_POINTWISE_LOG, sum, nullptr, of_rows_);
    graph_.pointwise(CUDNN_POINTWISE_ADD, largest, logarithm,
                     graph_.memory(CUDNN_DATA_FLOAT, of_rows_, arrays_.log_sum.as<void>()));
    const Tensor p = graph_.inside(CUDNN_DATA_BFLOAT16, scores_);
    graph_.pointwise(CUDNN_POINTWISE_DIV, exponential, sum, p);
    graph_.multiply(p, bf16(of_keys_, arrays_.v), bf16(of_queries_, arrays_.o));
    graph_.plan();
  }

  void backward() {
    const Tensor gradient = bf16(of_queries_, arrays_.output_gradient);
    const Tensor product =
        step(CUDNN_POINTWISE_MUL, gradient, bf16(of_queries_, arrays_.o), of_queries_);
    const Tensor along = graph_.memory(CUDNN_DATA_FLOAT, of_rows_, arrays_.row_sum.as<void>());
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, product, along);

    const Tensor log_sum = graph_.memory(CUDNN_DATA_FLOAT, of_rows_, arrays_.log_sum.as<void>());
    const Tensor shifted = step(CUDNN_POINTWISE_SUB, scaled_scores(), log_sum, scores_);
    const Tensor p = step(CUDNN_POINTWISE_EXP, masked(shifted), nullptr, scores_);
    to_keys(turned(p), gradient, arrays_.dv);

    const Tensor dp = fp32(scores_);
    graph_.multiply(gradient, bf16(transposed(of_keys_), arrays_.v), dp);
    const Tensor centred = step(CUDNN_POINTWISE_SUB, dp, along, scores_);
    const Tensor unscaled = step(CUDNN_POINTWISE_MUL, centred, p, scores_);
    const Tensor ds = step(CUDNN_POINTWISE_MUL, unscaled, scale_, scores_);
    to_keys(turned(ds), q_, arrays_.dk);

    const Tensor k = graph_.inside(CUDNN_DATA_BFLOAT16, of_keys_);
    graph_.reshape(k_, k);
    const Tensor dq = graph_.memory(CUDNN_DATA_FLOAT, of_queries_, arrays_.dq_sum.as<void>());
    graph_.multiply(ds, k, dq);
    graph_.pointwise(CUDNN_POINTWISE_IDENTITY, dq, nullptr, bf16(of_queries_, arrays_.dq));
    graph_.plan();
  }

  void launch() const { graph_.launch(); }

 private:
  Tensor fp32(const TensorShape& shape) { return graph_.inside(CUDNN_DATA_FLOAT, shape); }
  Tensor bf16(const TensorShape& shape, const DeviceMemory& memory) {
    return graph_.memory(CUDNN_DATA_BFLOAT16, shape, memory.as<void>());
  }
  Tensor step(cudnnPointwiseMode_t mode, Tensor x, Tensor b, const TensorShape& shape) {
    const Tensor y = fp32(shape);
    graph_.pointwise(mode, x, b, y);
    return y;
  }

  // Q K^T / sqrt(d). Keys are seen transposed.
  Tensor scaled_scores() {
    q_ = bf16(of_queries_, arrays_.q);
    k_ = bf16(transposed(of_keys_), arrays_.k);
    const Tensor product = fp32(scores_);
    graph_.multiply(q_, k_, product);
    return step(CUDNN_POINTWISE_MUL, product, scale_, scores_);
  }

  // Keys after the query's place count as very small.
  Tensor masked(Tensor score) {
    if (!a_.causal) return score;
    const Tensor row = graph_.inside(CUDNN_DATA_INT32, scores_);
    const Tensor column = graph_.inside(CUDNN_DATA_INT32, scores_);
    const Tensor seen = graph_.inside(CUDNN_DATA_BOOLEAN, scores_);
    const Tensor result = fp32(scores_);
    graph_.index(2, score, row);
    graph_.index(3, score, column);
    graph_.pointwise(CUDNN_POINTWISE_CMP_GE, row, column, seen);
    graph_.select(seen, score, graph_.number(-1e30F), result);
    return result;
  }
  Tensor masked_scores() { return masked(scaled_scores()); }

  // The transpose of scores, in bf16.
  Tensor turned(Tensor score) {
    const Tensor y = graph_.inside(CUDNN_DATA_BFLOAT16, transposed(scores_));
    graph_.reshape(score, y);
    return y;
  }

  // A product per query head; the heads that share keys add up.
  void to_keys(Tensor left, Tensor right, const DeviceMemory& to) {
    const Tensor result = bf16(of_keys_, to);
    if (a_.heads == a_.kv_heads) return graph_.multiply(left, right, result);
    const Tensor per_head = graph_.inside(CUDNN_DATA_BFLOAT16, of_queries_);
    graph_.multiply(left, right, per_head);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, per_head, result);
  }

  AttentionCase a_;
  const AttentionArrays& arrays_;
  CudnnGraph graph_;
  TensorShape of_queries_;
  TensorShape of_keys_;
  TensorShape scores_;
  TensorShape of_rows_;
  Tensor scale_;
  Tensor q_ = nullptr;
  Tensor k_ = nullptr;
};

std::vector<double> read_token(const DeviceMemory& memory, std::int64_t token,
                               std::int64_t head_dim) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(2 * head_dim));
  check_cuda(cudaMemcpy(bytes.data(), memory.as<std::byte>() + 2 * token * head_dim, bytes.size(),
                        cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  return decode(ArrayType::bf16, bytes);
}

// Some queries of the first and last head: the first, the last, and one between. The host takes
// sequence * head_dim steps for each. dK and dV are checked by dQ alone: they leave the same kernel
// and share its scores.
double worst_error(const AttentionCase& a, const AttentionArrays& arrays) {
  const AttentionReference reference(a);
  double worst = 0;
  for (const std::int64_t head : {std::int64_t{0}, a.heads - 1}) {
    for (const std::int64_t query : {std::int64_t{0}, a.sequence / 2 + 1, a.sequence - 1}) {
      const std::int64_t token = ((a.batch - 1) * a.heads + head) * a.sequence + query;
      const auto expected = a.backward ? reference.query_gradient(a.batch - 1, head, query)
                                       : reference.output(a.batch - 1, head, query);
      const auto got = read_token(a.backward ? arrays.dq : arrays.o, token, a.head_dim);
      for (std::size_t d = 0; d < got.size(); ++d) {
        const double error = std::abs(got[d] - expected[d]) / kTolerance;
        worst = std::isnan(error) ? 1e9 : std::max(worst, error);
      }
    }
  }
  return worst;
}

void fill_inputs(const AttentionArrays& arrays, cudaStream_t stream) {
  const auto fill = [stream](AttentionArray array, std::size_t count, const DeviceMemory& to) {
    fill_random(ArrayType::bf16, static_cast<std::uint64_t>(array),
                static_cast<std::int64_t>(count), to.as<void>(), stream);
  };
  fill(AttentionArray::q, arrays.queries, arrays.q);
  fill(AttentionArray::k, arrays.keys, arrays.k);
  fill(AttentionArray::v, arrays.keys, arrays.v);
  fill(AttentionArray::gradient, arrays.queries, arrays.output_gradient);
}

}  // namespace

// Backward needs what forward left behind: the output and the logarithm of the sums.
Measurement measure_attention(Bench& bench, const AttentionCase& attention, const StopRule& rule) {
  const AttentionArrays arrays(attention);
  fill_inputs(arrays, bench.stream());
  AttentionGraph forward(attention, arrays, bench.stream());
  forward.forward();
  forward.launch();
  AttentionGraph backward(attention, arrays, bench.stream());
  if (attention.backward) {
    backward.backward();
    backward.launch();
  }
  bench.wait();
  const double error = worst_error(attention, arrays);
  require_right(error, "attention");
  const AttentionGraph& timed = attention.backward ? backward : forward;
  Measurement result = bench.time([&timed] { timed.launch(); }, rule);
  result.error_over_tolerance = error;
  return result;
}

bool has_cudnn() { return true; }

std::string cudnn_version() {
  const std::size_t code = cudnnGetVersion();
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace flopcast

#else

namespace flopcast {

Measurement measure_attention(Bench&, const AttentionCase&, const StopRule&) {
  throw DeviceError("attention: this build has no cuDNN");
}

bool has_cudnn() { return false; }

std::string cudnn_version() { return "none"; }

}  // namespace flopcast

#endif
