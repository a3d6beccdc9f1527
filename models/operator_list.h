#pragma once

// Builds the operators of a layer in order; knows the splits. Private to the files that issue
// operators: layer_operators.cpp, attention_operators.cpp, expert_operators.cpp,
// head_operators.cpp.

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "models/layer_operators.h"

namespace flopcast {

/// Operators of one rank and phase.
class OperatorList {
 public:
  OperatorList(const OperatorContext& context, OperatorPhase phase);

  /// Of operands that are there.
  void gemm(std::string_view name, GemmShape shape) { push(name, phase_, shape); }
  /// A linear layer on all its input, without communication.
  void local_forward(std::string_view name, GemmShape shape);

  void attention(std::string_view name, AttentionCall call) { push(name, phase_, call); }

  /// A kernel that moves `per_token` elements of the 16-bit type for each of `tokens`.
  void memory(std::string_view name, MemoryKernel kernel, std::int64_t tokens, double per_token) {
    const Bytes moved = static_cast<double>(tokens) * per_token * element_;
    push(name, phase_, MemoryCall{kernel, moved});
  }

  /// Between two number formats; bytes read and written.
  void convert(std::string_view name, Bytes moved) {
    push(name, phase_, MemoryCall{MemoryKernel::quantise, moved});
  }

  /// What follows, up to the other one, is work of the rank's routed experts.
  void begin_routed() { routed_ = true; }
  void end_routed() { routed_ = false; }
  /// What follows, up to the other one, stays in 16 bits whatever the precision of linear layers:
  /// head, router, core attention. Sources: Transformer Engine is not used there (Megatron-LM
  /// d98e8a64, models/gpt/gpt_model.py, transformer/moe/router.py); DeepSeek-V3, arXiv 2412.19437,
  /// section 3.3.1.
  void begin_unquantised() { unquantised_ = true; }
  void end_unquantised() { unquantised_ = false; }
  /// The host waits for the last operator.
  void host_waits() { list_.back().host_waits = true; }
  /// The last operator stands for many calls of the framework.
  void host_calls(int calls) { list_.back().host_calls = calls; }

  /// Nothing for a group of one.
  void collective(std::string_view name, const GroupCall& call);
  void join(StepGroup group = StepGroup::tensor);

  /// `width` elements of the 16-bit type for each token of the tensor-parallel region.
  Bytes activation_size(std::int64_t width) const {
    return static_cast<double>(context_.tokens() * width) * element_;
  }
  /// Before a column-parallel layer, after a row-parallel one; `size` of the whole activation.
  void enter_tensor_region(std::string_view name, Bytes size, bool beside = false);
  void leave_tensor_region(std::string_view name, Bytes size, bool beside = false);

  /// Products of one input, side by side in a column-parallel layer.
  using Shapes = std::vector<GemmShape>;
  /// `shared`: an adapter beside it reads the gathered input as well.
  void column_forward(std::string_view name, const Shapes& shapes, bool shared = false);
  void column_forward(std::string_view name, GemmShape shape) {
    column_forward(name, Shapes{shape});
  }
  void row_forward(std::string_view name, GemmShape shape);
  void column_backward(std::string_view name, const Shapes& forward);
  void column_backward(std::string_view name, GemmShape forward) {
    column_backward(name, Shapes{forward});
  }
  void row_backward(std::string_view name, GemmShape forward);
  /// Both products of the backward pass, without communication.
  void local_backward(std::string_view name, GemmShape forward);
  /// Of a weight of the model; nothing where it is frozen.
  void wgrad(std::string_view name, GemmShape forward);
  /// Of weights that are trained in any case.
  void trained_dgrad(std::string_view name, GemmShape forward) { dgrad(name, forward); }
  void trained_wgrad(std::string_view name, GemmShape forward);

  /// A norm of `width` on the tokens outside the tensor-parallel region.
  void norm_forward(std::string_view name, std::int64_t width);
  void norm_backward(std::string_view name, std::int64_t width);
  /// Bias, dropout and residual in one kernel.
  void residual();
  /// Gradients of bias and dropout; nothing without dropout.
  void residual_dropout_backward();
  /// Adds the gradient that passed by a norm.
  void residual_gradient();

  /// What another list holds, some times over.
  void append(const std::vector<Operator>& part, int times) {
    for (int i = 0; i < times; ++i) list_.insert(list_.end(), part.begin(), part.end());
  }
  std::vector<Operator> take() && { return std::move(list_); }

 private:
  void push(std::string_view name, OperatorPhase phase, decltype(Operator::work) work) {
    list_.push_back({.name = name,
                     .phase = phase,
                     .work = work,
                     .routed = routed_,
                     .unquantised = unquantised_});
  }
  /// Casts `elements` to the precision of linear layers, for both directions of products.
  void cast(std::string_view name, double elements);
  double rows_outside(std::int64_t rows) const;
  CollectiveKind reduction() const {
    return context_.layout.sequence_parallel ? CollectiveKind::reduce_scatter
                                             : CollectiveKind::all_reduce;
  }
  int ranks_of(StepGroup group) const;
  void regather(std::string_view name, Bytes size, bool beside);
  /// Whether the ranks' parts of a linear layer's operand are gathered as the product reads them.
  bool gathers_quantised(std::int64_t width) const;
  /// The whole of such an operand, along rows or along columns.
  Bytes gathered_size(std::int64_t width) const;
  /// The ranks of a region agree on the scale of what they are about to cast and gather.
  void reduce_maximum(std::int64_t width);
  /// Gathers the gradient of a row-parallel layer's output for both its products; true: what the
  /// second one reads comes beside the first.
  bool gather_gradient(std::int64_t width);
  void dgrad(std::string_view name, GemmShape forward);

  const OperatorContext& context_;
  OperatorPhase phase_;
  Bytes element_;
  bool routed_ = false;
  bool unquantised_ = false;
  std::vector<Operator> list_;
};

// attention_operators.cpp: norm, projections, core attention, residual
void attention_forward(OperatorList& list, const OperatorContext& context, std::int64_t layer);
void attention_backward(OperatorList& list, const OperatorContext& context, std::int64_t layer);
void core_attention(OperatorList& list, const OperatorContext& context, std::int64_t layer,
                    AttentionPass pass);

// head_operators.cpp: final norm, logits, loss
void predict(OperatorList& list, const OperatorContext& context);
void predict_backward(OperatorList& list, const OperatorContext& context);

/// Latents to queries, keys and values, with their norms and rotation.
void latent_up_forward(OperatorList& list, const OperatorContext& context);

// recompute_operators.cpp: what is not kept when every other matrix product is
void all_but_every_other_matmul(OperatorList& list, const OperatorContext& context);
void rotary(OperatorList& list, const OperatorContext& context);

// expert_operators.cpp: norm, router, routed and shared experts, residual
void experts_forward(OperatorList& list, const OperatorContext& context);
void experts_backward(OperatorList& list, const OperatorContext& context);
/// Without norm and residual.
void experts_inside(OperatorList& list, const OperatorContext& context);
void expert_activation(OperatorList& list, const OperatorContext& context);

// adapter_operators.cpp: what runs beside a linear layer; nothing where it has no adapter
/// Whether it reads the input that its column-parallel layer has gathered.
bool adapter_shares_input(const OperatorContext& context, AdapterTarget target);
void adapter_forward(OperatorList& list, const OperatorContext& context, AdapterTarget target);
void adapter_backward(OperatorList& list, const OperatorContext& context, AdapterTarget target);

// layer_operators.cpp
/// A dense MLP of `ffn` over all ranks of the tensor-parallel group, without norm and residual.
void dense_mlp_forward(OperatorList& list, const OperatorContext& context, std::int64_t ffn);
void dense_mlp_backward(OperatorList& list, const OperatorContext& context, std::int64_t ffn);
/// Elements per token of the activation kernel on a hidden layer of `width`.
double activation_elements(const OperatorContext& context, std::int64_t width, AttentionPass pass);

}  // namespace flopcast
