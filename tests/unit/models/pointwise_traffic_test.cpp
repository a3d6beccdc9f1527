#include "models/pointwise_traffic.h"

#include <catch2/catch.hpp>

#include "models/layer_operators.h"

using namespace flopcast;

namespace {

Framework eager() {
  Framework framework;
  framework.eager_kernels = true;
  return framework;
}

}  // namespace

// torch's own LayerNorm in fp32 on 4096 rows, measured by linkedin/Liger-Kernel ead96b6
// (benchmark/data/all_benchmark_data.csv), at the share of the bandwidth that cuDNN's norms reach.
TEST_CASE("PyTorch's own LayerNorm takes as long as the passes that it makes") {
  struct Row {
    double bandwidth;  // bytes/s
    double width;
    double forward;  // s
    double backward;
  };
  const auto row = GENERATE(values<Row>({{2039e9, 8192, 257.55e-6, 572.03e-6},
                                         {2039e9, 16384, 506.69e-6, 1114.6e-6},
                                         {3350e9, 8192, 152.67e-6, 333.7e-6},
                                         {3350e9, 16384, 306.78e-6, 642.4e-6}}));
  CAPTURE(row.bandwidth, row.width);
  Transformer model;
  model.norm = NormKind::layer_norm;
  const PointwiseTraffic moved = norm_traffic(model, eager());
  constexpr double kFp32 = 2;  // elements of 16 bits
  const double element = 2 * kFp32 * 4096 * row.width;
  CHECK(moved.forward * element / (row.bandwidth * 0.8082) == Approx(row.forward).epsilon(0.1));
  CHECK(moved.backward * element / (row.bandwidth * 0.7819) == Approx(row.backward).epsilon(0.15));
}

TEST_CASE("fused kernels read what they need once") {
  Transformer model;
  const Framework fused;
  CHECK(norm_traffic(model, fused).forward == 2);
  CHECK(norm_traffic(model, fused).backward == 3);
  CHECK(rotary_traffic(fused) == 2);
  CHECK(activation_traffic(model, fused).forward == 3);
  CHECK(activation_traffic(model, fused).backward == 5);
  model.gated_mlp = false;
  CHECK(activation_traffic(model, fused).forward == activation_traffic(model, eager()).forward);
}

TEST_CASE("operators of a layer without fused kernels move what their chains do") {
  Transformer model;
  model.layers = 1;
  model.hidden = 1024;
  model.heads = model.kv_heads = 8;
  model.head_dim = 128;
  model.ffn = 4096;
  Training training;
  training.batch = {.sequence = 512, .micro_batch = 1, .global_batch = 1};
  const auto moved = [&](std::string_view name, const std::vector<Operator>& operators) {
    double sum = 0;
    for (const Operator& op : operators) {
      const auto* call = std::get_if<MemoryCall>(&op.work);
      if (call != nullptr && op.name == name) sum += call->moved.value;
    }
    return sum;
  };
  training.framework = eager();
  const Layout layout;
  const OperatorContext context{model, layout, training, 1024};
  const std::vector<Operator> forward = layer_forward(context, 0);
  const std::vector<Operator> backward = layer_backward(context, 0);
  // Bytes of an element: RMSNorm's chain in fp32 36 and 92, rotary 20, SwiGLU 4 + 6 and 18.
  CHECK(moved("input norm", forward) == 36.0 * 512 * 1024);
  CHECK(moved("input norm", backward) == 92.0 * 512 * 1024);
  CHECK(moved("rotary", forward) == 20.0 * 512 * 2 * 1024);
  CHECK(moved("rotary", backward) == 20.0 * 512 * 2 * 1024);
  CHECK(moved("activation", forward) == 10.0 * 512 * 4096);
  CHECK(moved("activation", backward) == 18.0 * 512 * 4096);
}
