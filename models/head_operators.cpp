#include "models/operator_list.h"
#include "models/pointwise_traffic.h"

// Final norm, logits, loss.
//
// A loss in pieces (loss_chunks) makes the logits of one part of the sequence after another, and
// makes each part's again in the backward pass, where its gradients follow at once: no more than
// one part's logits are there. Source: NeMo Automodel 0.7, components/loss/chunked_ce.py,
// ChunkedCrossEntropy ("chunk the LM-head projection and CE, recomputing each chunk in backward").
// Beside tensor parallelism, which it does not have, each part's input is gathered and its gradient
// reduced apart (assumed).

namespace flopcast {
namespace {

GemmShape logits_shape(const OperatorContext& context) {
  return {.m = context.tokens(),
          .n = context.padded_vocab / context.layout.grid.tp,
          .k = context.model.hidden};
}

/// Vocabulary-parallel cross-entropy: all-reduces of one fp32 number per token: maximum, target
/// logit, sum of exponents; fused, the last two travel together. None in the backward pass.
/// Source: Megatron-LM d98e8a64, tensor_parallel/cross_entropy.py, fusions/fused_cross_entropy.py;
/// flash-attn's is the same in this, torch's loss_parallel is not fused.
void cross_entropy_reductions(OperatorList& list, const OperatorContext& context) {
  const Bytes row = static_cast<double>(context.tokens()) * element_size(DataType::fp32);
  const CrossEntropy kind = context.training.framework.cross_entropy;
  list.collective("loss maximum", {CollectiveKind::all_reduce, row});
  if (kind == CrossEntropy::fused || kind == CrossEntropy::one_kernel) {
    list.collective("loss target and sum", {CollectiveKind::all_reduce, 2.0 * row});
  } else {
    list.collective("loss target", {CollectiveKind::all_reduce, row});
    list.collective("loss sum", {CollectiveKind::all_reduce, row});
  }
}

double cross_entropy_elements(const OperatorContext& context, AttentionPass pass) {
  const PointwiseTraffic moved = cross_entropy_traffic(context.training.framework);
  return (pass == AttentionPass::forward ? moved.forward : moved.backward) *
         static_cast<double>(context.padded_vocab) / context.layout.grid.tp;
}

/// From the gathered input.
void loss_forward(OperatorList& list, const OperatorContext& context) {
  list.begin_unquantised();
  list.gemm("logits", logits_shape(context));
  list.end_unquantised();
  list.memory("cross-entropy", MemoryKernel::softmax, context.tokens(),
              cross_entropy_elements(context, AttentionPass::forward));
  cross_entropy_reductions(list, context);
}

void loss_metrics(OperatorList& list, const OperatorContext& context) {
  const int metrics = context.training.framework.loss_metrics;
  if (metrics == 0) return;
  const double width = static_cast<double>(context.padded_vocab) / context.layout.grid.tp;
  list.memory("loss metrics", MemoryKernel::softmax, context.tokens(),
              metrics * kTorchCrossEntropy.forward * width);
}

void logits_gradient(OperatorList& list, const OperatorContext& context) {
  list.memory("cross-entropy", MemoryKernel::softmax, context.tokens(),
              cross_entropy_elements(context, AttentionPass::backward));
}

/// A part of a micro-batch's sequence.
struct Piece {
  Training training;
  OperatorContext context;

  explicit Piece(const OperatorContext& whole)
      : training(whole.training),
        context{whole.model, whole.layout, training, whole.padded_vocab, whole.context_rank} {
    training.batch.sequence /= training.loss_chunks;
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
};

void pieces_forward(OperatorList& list, const OperatorContext& context) {
  const Piece piece(context);
  OperatorList part(piece.context, OperatorPhase::forward);
  loss_forward(part, piece.context);
  loss_metrics(part, piece.context);
  list.append(std::move(part).take(), context.training.loss_chunks);
}

/// The input that is gathered for the logits is there for the weight gradient as well.
void pieces_backward(OperatorList& list, const OperatorContext& context) {
  const Piece piece(context);
  const Bytes input = list.activation_size(context.model.hidden) / context.training.loss_chunks;
  OperatorList again(piece.context, OperatorPhase::recompute);
  if (context.training.framework.regather_in_backward) {
    again.enter_tensor_region("all-gather head input again", input);
  }
  loss_forward(again, piece.context);
  OperatorList part(piece.context, OperatorPhase::data_gradient);
  part.append(std::move(again).take(), 1);
  logits_gradient(part, piece.context);
  part.begin_unquantised();
  part.trained_dgrad("logits", logits_shape(piece.context));
  part.leave_tensor_region("reduce head input gradient", input, true);
  part.wgrad("logits", logits_shape(piece.context));
  part.end_unquantised();
  part.join();
  list.append(std::move(part).take(), context.training.loss_chunks);
}

}  // namespace

void predict(OperatorList& list, const OperatorContext& context) {
  list.norm_forward("final norm", context.model.hidden);
  list.enter_tensor_region("all-gather head input", list.activation_size(context.model.hidden));
  if (context.training.loss_chunks > 1) return pieces_forward(list, context);
  loss_forward(list, context);
  loss_metrics(list, context);
}

void predict_backward(OperatorList& list, const OperatorContext& context) {
  if (context.training.loss_chunks > 1) {
    pieces_backward(list, context);
  } else {
    logits_gradient(list, context);
    list.begin_unquantised();
    list.column_backward("logits", logits_shape(context));
    list.end_unquantised();
  }
  list.norm_backward("final norm", context.model.hidden);
  list.residual_gradient();
}

std::vector<Operator> head_forward(const OperatorContext& context) {
  OperatorList list(context, OperatorPhase::forward);
  predict(list, context);
  return std::move(list).take();
}

std::vector<Operator> head_backward(const OperatorContext& context) {
  OperatorList list(context, OperatorPhase::data_gradient);
  predict_backward(list, context);
  return std::move(list).take();
}

}  // namespace flopcast
