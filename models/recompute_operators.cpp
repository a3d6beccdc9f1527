#include "models/operator_list.h"

// Selective recomputation operator by operator, as torchtitan does it: of the products in the order
// wq, wk, wv, wo, w1, w3, w2 those in even places run again, and with them norms, rotary embedding,
// activation and the residual between attention and MLP. Outputs of attention and of reductions
// over the tensor-parallel group are kept. Source: torchtitan, distributed/
// activation_checkpoint.py (selective, "op").

namespace flopcast {

void all_but_every_other_matmul(OperatorList& list, const OperatorContext& context) {
  const Transformer& model = context.model;
  const std::int64_t tokens = context.tokens();
  const std::int64_t tp = context.layout.grid.tp;
  const std::int64_t hidden = model.hidden;
  list.norm_forward("input norm", hidden);
  list.enter_tensor_region("all-gather qkv input", list.activation_size(hidden));
  list.local_forward("keys", {.m = tokens, .n = model.kv_width() / tp, .k = hidden});
  rotary(list, context);
  list.local_forward("attention output", {.m = tokens, .n = hidden, .k = model.query_width() / tp});
  list.residual();
  list.norm_forward("MLP norm", hidden);
  list.enter_tensor_region("all-gather fc1 input", list.activation_size(hidden));
  list.local_forward("up", {.m = tokens, .n = model.ffn / tp, .k = hidden});
  list.memory("activation", MemoryKernel::elementwise, tokens,
              activation_elements(context, model.ffn / tp, AttentionPass::forward));
}

}  // namespace flopcast
