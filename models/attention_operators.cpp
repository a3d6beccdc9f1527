#include <algorithm>
#include <cmath>

#include "models/operator_list.h"
#include "models/pointwise_traffic.h"

// Attention of one layer, plain and latent, and how context parallelism splits its core.

namespace flopcast {
namespace {

/// Keys that a query meets. Through a window of w tokens those are w, but for the first w queries
/// of n, which find less before them: w - w^2 / 2n in the mean, n / 2 where w is n.
std::int64_t keys_of(const OperatorContext& context, std::int64_t layer) {
  const Transformer& model = context.model;
  const bool slides =
      model.sliding_window > 0 && (model.sliding_every <= 1 || layer % model.sliding_every != 0);
  const std::int64_t attended =
      std::max<std::int64_t>(1, std::llround(context.training.attended()));
  if (!slides || model.sliding_window >= attended) return attended;
  const auto window = static_cast<double>(model.sliding_window);
  return std::llround(window - window * window / (2 * static_cast<double>(attended)));
}

/// Queries of this rank against all keys of their document.
AttentionShape attention_shape(const OperatorContext& context, std::int64_t layer) {
  const std::int64_t sequence = context.training.batch.sequence;
  const std::int64_t keys = keys_of(context, layer);
  return {.batch = context.training.batch.micro_batch,
          .heads = context.model.heads / context.layout.grid.tp,
          .queries = sequence / context.layout.grid.cp,
          .keys = keys,
          .qk_dim = context.model.qk_dim(),
          .v_dim = context.model.v_dim(),
          .causal = keys == std::llround(context.training.attended())};
}

OperatorList::Shapes qkv_shapes(const OperatorContext& context) {
  const Transformer& model = context.model;
  const std::int64_t tp = context.layout.grid.tp;
  GemmShape shape{.m = context.tokens(),
                  .n = (model.query_width() + 2 * model.kv_width()) / tp,
                  .k = model.hidden};
  if (!context.training.framework.separate_projections) return {shape};
  GemmShape key = shape;
  shape.n = model.query_width() / tp;
  key.n = model.kv_width() / tp;
  return {shape, key, key};
}

GemmShape projection_shape(const OperatorContext& context) {
  return {.m = context.tokens(),
          .n = context.model.hidden,
          .k = context.model.heads * context.model.v_dim() / context.layout.grid.tp};
}

/// Scores, softmax, dropout and values as separate kernels: before fused attention. Elements per
/// score: softmax reads and writes one each (backward reads two and writes one); dropout the same
/// and a mask of one byte, which counts half an element.
void unfused_attention(OperatorList& list, const OperatorContext& context, AttentionCall call) {
  const AttentionShape& a = call.shape;
  const std::int64_t batch = a.batch * a.heads;
  const bool forward = call.pass == AttentionPass::forward;
  const double softmax = forward ? 2 : 3;
  const double dropout = context.model.dropout ? 2.5 : 0;
  const GemmShape scores{.m = a.queries, .n = a.keys, .k = a.qk_dim, .batch = batch};
  const GemmShape values{.m = a.queries, .n = a.v_dim, .k = a.keys, .batch = batch};
  const std::int64_t rows = batch * a.queries;
  const double keys = static_cast<double>(a.keys);
  const int products = forward ? 1 : 2;  // backward: a gradient for each of the two inputs
  list.begin_unquantised();
  for (int i = 0; i < products; ++i) list.gemm("attention scores", scores);
  list.memory("attention softmax", MemoryKernel::softmax, rows, softmax * keys);
  if (dropout > 0) {
    list.memory("attention dropout", MemoryKernel::elementwise, rows, dropout * keys);
  }
  for (int i = 0; i < products; ++i) list.gemm("attention values", values);
  list.end_unquantised();
}

DataType attention_type(const OperatorContext& context) {
  return context.training.attention_dtype.value_or(context.training.parameter_dtype);
}

DataType passed_type(const OperatorContext& context) {
  return context.training.context_dtype.value_or(attention_type(context));
}

double wider(DataType type, const OperatorContext& context) {
  return element_size(type) / element_size(passed_type(context));
}

/// What is passed in fewer bits than attention reads is cast before, and back where it arrives:
/// read and written once.
void cast_passed(OperatorList& list, const OperatorContext& context, Bytes passed) {
  const double times = wider(attention_type(context), context);
  if (times > 1) list.convert("cast what is passed", passed * (1 + times));
}

/// What context parallelism passes between ranks, per rank and layer.
struct ContextSizes {
  Bytes query;
  Bytes key_value;
  Bytes output;
};

ContextSizes context_sizes(const OperatorContext& context) {
  const Transformer& model = context.model;
  const int tp = context.layout.grid.tp;
  const double per_token =
      element_size(passed_type(context)).value * static_cast<double>(context.tokens());
  const std::int64_t local_heads = model.heads / tp;
  const auto heads = static_cast<double>(local_heads);
  const std::int64_t kv_heads = model.mla ? model.heads : model.kv_heads;
  const auto kv = static_cast<double>(std::max<std::int64_t>(1, kv_heads / tp));
  const auto qk_dim = static_cast<double>(model.qk_dim());
  const auto v_dim = static_cast<double>(model.v_dim());
  return {.query = bytes(per_token * heads * qk_dim),
          .key_value = bytes(per_token * kv * (qk_dim + v_dim)),
          .output = bytes(per_token * heads * v_dim)};
}

/// Of the ranks of a ring: how many come before this one. The last sees most.
std::int64_t place_in_ring(const OperatorContext& context) {
  return context.context_rank < 0 ? ring_ranks(context.layout) - 1 : context.context_rank;
}

/// Keys and values go round the ring of ranks; each hop runs beside the attention to the block that
/// is there. Zigzag: of 2 n pieces of the sequence rank i holds i and 2 n - 1 - i, which gives
/// every rank half a square of scores in every step: its own square under the mask, then all
/// queries to the first piece or those of the second piece to both. Contiguous: rank i sees its own
/// square under the mask and i whole ones, and skips those of later tokens, which it passes on all
/// the same; n - 1/2 squares on the last rank, against n / 2 by zigzag. The backward pass sends the
/// gradients of keys and values along. Packed documents are each cut so. Sources: Liu et al., Ring
/// Attention, arXiv 2310.01889; Transformer Engine,
/// pytorch/attention/dot_product_attention/context_parallel.py, AttnFuncWithCPAndKVP2P; PyTorch
/// 2.14.1, distributed/tensor/experimental/_attention.py, _is_causal_behavior.
void ring_attention(OperatorList& list, const OperatorContext& context, AttentionCall call) {
  const std::int64_t blocks = ring_ranks(context.layout);
  const bool zigzag = context.layout.context_split == ContextSplit::zigzag;
  const Bytes key_value = context_sizes(context).key_value;
  const bool forward = call.pass == AttentionPass::forward;
  const Bytes passed = (forward ? 1.0 : 2.0) * key_value;
  const GroupCall hop{CollectiveKind::send_recv, passed, true, StepGroup::context};
  cast_passed(list, context, key_value);
  AttentionCall block = call;
  const std::int64_t keys = std::max<std::int64_t>(2, call.shape.keys / blocks);
  block.shape.keys = keys;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const bool passes_on = i + 1 < blocks;
    if (passes_on && !forward) cast_passed(list, context, key_value);
    if (passes_on) list.collective("pass keys and values", hop);
    if (zigzag || i <= place_in_ring(context)) list.attention("core attention", block);
    if (passes_on) list.join(StepGroup::context);
    if (passes_on) cast_passed(list, context, passed);
    block.shape.keys = zigzag ? keys / 2 : keys;
    block.shape.causal = false;
  }
}

/// All keys and values on every rank, again in the backward pass, which adds up their gradients.
/// Not overlapped. Of a contiguous split rank i sees the tokens of i ranks and half of its own; a
/// window is as long for all. Sources: Llama 3, arXiv 2407.21783, section 3.3.2; Transformer Engine
/// (as above), get_kv_seq_info_after_all_gather.
void gathered_attention(OperatorList& list, const OperatorContext& context, AttentionCall call) {
  if (context.layout.context_split == ContextSplit::contiguous && call.shape.causal) {
    const std::int64_t ranks = context.layout.grid.cp;
    call.shape.keys = (2 * place_in_ring(context) + 1) * call.shape.keys / (2 * ranks);
    call.shape.causal = false;
  }
  const Bytes own = context_sizes(context).key_value;
  const Bytes all = static_cast<double>(context.layout.grid.cp) * own;
  cast_passed(list, context, own);
  list.collective("all-gather keys and values",
                  {CollectiveKind::all_gather, all, false, StepGroup::context});
  cast_passed(list, context, all);
  list.attention("core attention", call);
  if (call.pass == AttentionPass::forward) return;
  const Bytes sums = wider(context.training.parameter_dtype, context) * all;
  list.collective("reduce key and value gradients",
                  {CollectiveKind::reduce_scatter, sums, false, StepGroup::context});
}

void exchange(OperatorList& list, const OperatorContext& context, std::string_view name, Bytes size,
              StepGroup group) {
  cast_passed(list, context, size);
  list.collective(name, {CollectiveKind::all_to_all, size, false, group});
  cast_passed(list, context, size);
}

/// From a part of the sequence and all heads to the whole sequence and a part of the heads, and
/// back. Source: Jacobs et al., DeepSpeed Ulysses, arXiv 2309.14509.
void exchanged_attention(OperatorList& list, const OperatorContext& context, AttentionCall call) {
  const ContextSizes sizes = context_sizes(context);
  const bool forward = call.pass == AttentionPass::forward;
  const Bytes inputs = sizes.query + sizes.key_value;
  call.shape.heads /= context.layout.grid.cp;
  call.shape.queries = context.training.batch.sequence;
  exchange(list, context, "exchange sequence for heads", forward ? inputs : sizes.output,
           StepGroup::context);
  list.attention("core attention", call);
  exchange(list, context, "exchange heads for sequence", forward ? sizes.output : inputs,
           StepGroup::context);
}

/// Neighbours exchange heads for sequence, then the ring goes over groups of them, with their share
/// of heads and their tokens together. The backward pass has queries, keys and values of the
/// forward one, but exchanges the output again beside its gradient. Source: Transformer Engine (as
/// above), AttnFuncWithCPAndKVP2P, "the 'a2a' part of 'a2a+p2p'".
void exchanged_ring_attention(OperatorList& list, const OperatorContext& context,
                              AttentionCall call) {
  const ContextSizes sizes = context_sizes(context);
  const bool forward = call.pass == AttentionPass::forward;
  const Bytes inputs = sizes.query + sizes.key_value;
  call.shape.heads /= context.layout.context_exchange;
  call.shape.queries *= context.layout.context_exchange;
  const Bytes to_heads = forward ? inputs : 2.0 * sizes.output;
  exchange(list, context, "exchange sequence for heads", to_heads, StepGroup::context_exchange);
  ring_attention(list, context, call);
  exchange(list, context, "exchange heads for sequence", forward ? sizes.output : inputs,
           StepGroup::context_exchange);
}

}  // namespace

void rotary(OperatorList& list, const OperatorContext& context) {
  const Transformer& model = context.model;
  if (model.positions != PositionKind::rotary) return;
  const std::int64_t kv_heads = model.mla ? model.heads : model.kv_heads;
  const double width = static_cast<double>((model.heads + kv_heads) * model.qk_dim());
  list.memory("rotary", MemoryKernel::rotary, context.tokens(),
              rotary_traffic(context.training.framework) * width / context.layout.grid.tp);
}

namespace {

/// Latent attention: shapes of the projections. The two down projections are whole on every
/// tensor-parallel rank and work on its part of the sequence; what is gathered for the up
/// projections is the latent, not the hidden state. Source: Megatron-LM d98e8a64,
/// megatron/core/transformer/multi_latent_attention.py; DeepSeek-V2, arXiv 2405.04434, section 2.1.
struct LatentShapes {
  GemmShape q_down;
  GemmShape q_up;
  GemmShape q;  // in place of both where queries are not compressed
  GemmShape kv_down;
  GemmShape kv_up;
};

LatentShapes latent_shapes(const OperatorContext& context) {
  const LatentAttention& mla = *context.model.mla;
  const std::int64_t hidden = context.model.hidden;
  const std::int64_t heads = context.model.heads / context.layout.grid.tp;
  const std::int64_t outside = context.sharded_tokens();
  const std::int64_t inside = context.tokens();
  const std::int64_t query = heads * context.model.qk_dim();
  return {.q_down = {.m = outside, .n = mla.q_rank, .k = hidden},
          .q_up = {.m = inside, .n = query, .k = mla.q_rank},
          .q = {.m = inside, .n = query, .k = hidden},
          .kv_down = {.m = outside, .n = mla.kv_rank + mla.qk_rope_dim, .k = hidden},
          .kv_up = {.m = inside, .n = heads * (mla.qk_nope_dim + mla.v_dim), .k = mla.kv_rank}};
}

void latent_projections_forward(OperatorList& list, const OperatorContext& context) {
  const LatentAttention& mla = *context.model.mla;
  const LatentShapes shapes = latent_shapes(context);
  if (mla.q_rank > 0) {
    list.local_forward("q down", shapes.q_down);
    list.norm_forward("q norm", mla.q_rank);
    list.column_forward("q up", shapes.q_up);
  } else {
    list.column_forward("q", shapes.q);
  }
  list.local_forward("kv down", shapes.kv_down);
  list.norm_forward("kv norm", mla.kv_rank);
  list.enter_tensor_region("all-gather shared key", list.activation_size(mla.qk_rope_dim));
  list.column_forward("kv up", shapes.kv_up);
}

void latent_projections_backward(OperatorList& list, const OperatorContext& context) {
  const LatentAttention& mla = *context.model.mla;
  const LatentShapes shapes = latent_shapes(context);
  list.column_backward("kv up", shapes.kv_up);
  list.leave_tensor_region("reduce shared key gradient", list.activation_size(mla.qk_rope_dim));
  list.norm_backward("kv norm", mla.kv_rank);
  list.local_backward("kv down", shapes.kv_down);
  if (mla.q_rank > 0) {
    list.column_backward("q up", shapes.q_up);
    list.norm_backward("q norm", mla.q_rank);
    list.local_backward("q down", shapes.q_down);
  } else {
    list.column_backward("q", shapes.q);
  }
}

}  // namespace

void latent_up_forward(OperatorList& list, const OperatorContext& context) {
  const LatentAttention& mla = *context.model.mla;
  const LatentShapes shapes = latent_shapes(context);
  if (mla.q_rank > 0) {
    list.norm_forward("q norm", mla.q_rank);
    list.column_forward("q up", shapes.q_up);
  } else {
    list.column_forward("q", shapes.q);
  }
  list.norm_forward("kv norm", mla.kv_rank);
  list.column_forward("kv up", shapes.kv_up);
  rotary(list, context);
}

namespace {

/// Queries, keys and values to 8 bits and the output back; in the backward pass the output's
/// gradient, and those of queries, keys and values: 16 bits on one side, 8 on the other. Source:
/// Transformer Engine v2, pytorch/attention/dot_product_attention/backends.py, FusedAttnFunc with
/// fp8_dpa; fp8_mha, which leaves some of them out, is not modelled.
void cast_attention(OperatorList& list, const OperatorContext& context, std::string_view name,
                    double width) {
  if (!context.training.attention_dtype) return;
  const auto elements = static_cast<double>(context.tokens()) * width / context.layout.grid.tp;
  list.convert(name, elements * (element_size(context.training.parameter_dtype) +
                                 element_size(*context.training.attention_dtype)));
}

struct AttentionWidths {
  double inputs;  // queries, keys and values
  double output;
};

AttentionWidths attention_widths(const OperatorContext& context) {
  const Transformer& model = context.model;
  const std::int64_t kv_heads = model.mla ? model.heads : model.kv_heads;
  const std::int64_t keys = kv_heads * (model.qk_dim() + model.v_dim());
  return {.inputs = static_cast<double>(model.heads * model.qk_dim() + keys),
          .output = static_cast<double>(model.heads * model.v_dim())};
}

void split_attention(OperatorList& list, const OperatorContext& context, std::int64_t layer,
                     AttentionPass pass) {
  const AttentionCall call{attention_shape(context, layer), pass,
                           context.training.framework.attention_kernel};
  if (context.layout.grid.cp > 1) {
    switch (context.layout.context) {
      case ContextKind::ring: ring_attention(list, context, call); return;
      case ContextKind::all_gather: gathered_attention(list, context, call); return;
      case ContextKind::all_to_all: exchanged_attention(list, context, call); return;
      case ContextKind::exchange_and_ring: exchanged_ring_attention(list, context, call); return;
    }
  }
  if (context.training.framework.fused_attention) {
    list.attention("core attention", call);
  } else {
    unfused_attention(list, context, call);
  }
}

}  // namespace

void core_attention(OperatorList& list, const OperatorContext& context, std::int64_t layer,
                    AttentionPass pass) {
  const AttentionWidths widths = attention_widths(context);
  const bool forward = pass == AttentionPass::forward;
  cast_attention(list, context, "cast to attention", forward ? widths.inputs : widths.output);
  split_attention(list, context, layer, pass);
  cast_attention(list, context, "cast from attention", forward ? widths.output : widths.inputs);
}

void attention_forward(OperatorList& list, const OperatorContext& context, std::int64_t layer) {
  list.norm_forward("input norm", context.model.hidden);
  if (context.model.mla) {
    latent_projections_forward(list, context);
  } else {
    list.column_forward("qkv", qkv_shapes(context),
                        adapter_shares_input(context, AdapterTarget::linear_qkv));
    adapter_forward(list, context, AdapterTarget::linear_qkv);
  }
  rotary(list, context);
  core_attention(list, context, layer, AttentionPass::forward);
  list.row_forward("attention output", projection_shape(context));
  adapter_forward(list, context, AdapterTarget::linear_proj);
  list.residual();
}

void attention_backward(OperatorList& list, const OperatorContext& context, std::int64_t layer) {
  list.residual_dropout_backward();
  adapter_backward(list, context, AdapterTarget::linear_proj);
  list.row_backward("attention output", projection_shape(context));
  core_attention(list, context, layer, AttentionPass::backward);
  rotary(list, context);
  if (context.model.mla) {
    latent_projections_backward(list, context);
  } else {
    adapter_backward(list, context, AdapterTarget::linear_qkv);
    list.column_backward("qkv", qkv_shapes(context));
  }
  list.norm_backward("input norm", context.model.hidden);
  list.residual_gradient();
}

}  // namespace flopcast
