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

// On 16384 rows of 32768 logits in fp32, by the same benchmark on A100: what is not the casts.
TEST_CASE("PyTorch's own cross-entropy takes as long as the passes that it makes") {
  Framework framework;
  framework.cross_entropy = CrossEntropy::torch;
  const PointwiseTraffic moved = cross_entropy_traffic(framework);
  constexpr double kCast = 3;  // 2 and 4 bytes, in elements of 16 bits
  constexpr double kReached = 0.78 * 2039e9;
  const double element = 2.0 * 16384 * 32768;
  CHECK((moved.forward - kCast) * element / kReached == Approx(5316.8e-6).epsilon(0.1));
  CHECK((moved.backward - kCast) * element / kReached == Approx(10169.2e-6).epsilon(0.25));
}

TEST_CASE("metrics of the loss are its forward pass again") {
  Transformer model;
  model.hidden = 64;
  Training training;
  training.batch = {.sequence = 32, .micro_batch = 2, .global_batch = 2};
  training.framework = *framework_preset("mosaicml");
  const Layout layout;
  const std::vector<Operator> head = head_forward({model, layout, training, 1024});
  const auto* call = std::get_if<MemoryCall>(&head.back().work);
  REQUIRE(call != nullptr);
  // Cross-entropy and perplexity; 22 bytes for each of 64 x 1024 logits.
  CHECK(call->moved.value == 2 * 22.0 * 64 * 1024);
}

TEST_CASE("the loss holds what its kernels make of the logits") {
  struct Row {
    CrossEntropy kind;
    double saved;
    double peak;  // bytes of a logit
  };
  // torch: log-softmax and the gradients of its output and input in fp32, 4 bytes each, and the
  // place of the 16-bit logits.
  const auto row = GENERATE(values<Row>({{CrossEntropy::unfused, 6, 6},
                                         {CrossEntropy::fused, 6, 6},
                                         {CrossEntropy::torch, 4, 14},
                                         {CrossEntropy::one_kernel, 2, 4}}));
  Framework framework;
  framework.cross_entropy = row.kind;
  const LogitBytes held = cross_entropy_bytes(framework);
  CHECK(held.saved == row.saved);
  CHECK(held.saved + held.workspace == row.peak);
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
