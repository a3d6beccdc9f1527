#include "models/layout_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

// Source, unless a row names another: Megatron-LM d98e8a64,
// megatron/core/transformer/transformer_config.py, megatron/core/model_parallel_config.py and
// megatron/training/arguments.py, which refuse what these rows refuse.

namespace flopcast {

std::int64_t product(std::initializer_list<std::int64_t> factors) {
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) {
    if (factor >= kHuge / result) return kHuge;
    result *= factor;
  }
  return result;
}

bool LayoutCase::has_dense_mlp() const {
  return !model.moe || model.moe->first_dense > 0 || model.moe->every > 1;
}

std::int64_t LayoutCase::layers_to_split() const {
  return model.layers + (layout.account_embedding_in_split ? 1 : 0) +
         (layout.account_loss_in_split ? 1 : 0);
}

std::int64_t LayoutCase::stages() const {
  return placement_of(layout.schedule) == Placement::bidirectional
             ? grid().pp
             : product({grid().pp, layout.vpp});
}

namespace {

/// Latent attention expands keys and values to all heads.
std::int64_t heads_to_exchange(const LayoutCase& c) {
  return c.model.mla ? c.model.heads : c.model.kv_heads;
}

bool exchanges_and_rings(const LayoutCase& c) {
  return c.grid().cp > 1 && c.layout.context == ContextKind::exchange_and_ring;
}

/// Of a sequence, among the ranks that share it.
std::int64_t pieces(const LayoutCase& c) {
  return product({c.layout.context_split == ContextSplit::zigzag ? 2 : 1, c.grid().cp});
}

constexpr LayoutRule kWorldRules[] = {
    {LayoutKey::tp, [](const LayoutCase& c) { return c.gpus % c.grid().tp != 0; },
     [](const LayoutCase& c) {
       return fmt::format("tp = {} does not divide the {} GPUs", c.grid().tp, c.gpus);
     }},
    {LayoutKey::cp,
     [](const LayoutCase& c) {
       return c.gpus % c.grid().tp == 0 && c.gpus % product({c.grid().tp, c.grid().cp}) != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format("tp * cp = {} * {} does not divide the {} GPUs", c.grid().tp, c.grid().cp,
                          c.gpus);
     }},
    {LayoutKey::pp,
     [](const LayoutCase& c) {
       return c.gpus % product({c.grid().tp, c.grid().cp}) == 0 &&
              c.gpus % product({c.grid().tp, c.grid().cp, c.grid().pp}) != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format("tp * cp * pp = {} * {} * {} does not divide the {} GPUs", c.grid().tp,
                          c.grid().cp, c.grid().pp, c.gpus);
     }},
    {LayoutKey::dp,
     [](const LayoutCase& c) {
       return c.gpus % product({c.grid().tp, c.grid().cp, c.grid().pp}) == 0 &&
              product({c.ranks_per_stage(), c.grid().pp}) != c.gpus;
     },
     [](const LayoutCase& c) {
       return fmt::format("tp * cp * dp * pp = {} * {} * {} * {} is not the {} GPUs", c.grid().tp,
                          c.grid().cp, c.grid().dp, c.grid().pp, c.gpus);
     }},
    {LayoutKey::zero, [](const LayoutCase& c) { return c.layout.zero < 0 || c.layout.zero > 3; },
     [](const LayoutCase& c) {
       return fmt::format("zero = {} is not a ZeRO stage, 0 to 3", c.layout.zero);
     }},
};

constexpr LayoutRule kTensorRules[] = {
    {LayoutKey::tp, [](const LayoutCase& c) { return c.model.heads % c.grid().tp != 0; },
     [](const LayoutCase& c) {
       return fmt::format("tp = {} does not divide the {} attention heads", c.grid().tp,
                          c.model.heads);
     }},
    // Megatron asked for a multiple until core 0.15. Now it also takes a divisor, gathers Q, K and
    // V over tp, and lets each rank use one of the shared heads.
    {LayoutKey::tp,
     [](const LayoutCase& c) {
       return !c.model.mla && c.model.kv_heads > 0 && c.model.kv_heads % c.grid().tp != 0 &&
              c.grid().tp % c.model.kv_heads != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format(
           "tp = {} neither divides the {} key-value heads nor is a multiple of them", c.grid().tp,
           c.model.kv_heads);
     }},
    {LayoutKey::tp,
     [](const LayoutCase& c) { return c.has_dense_mlp() && c.model.ffn % c.grid().tp != 0; },
     [](const LayoutCase& c) {
       return fmt::format("tp = {} does not divide the MLP width {}", c.grid().tp, c.model.ffn);
     }},
    {LayoutKey::tp,
     [](const LayoutCase& c) { return c.model.moe && c.model.moe->shared_ffn % c.grid().tp != 0; },
     [](const LayoutCase& c) {
       return fmt::format("tp = {} does not divide the width {} of the shared experts", c.grid().tp,
                          c.model.moe->shared_ffn);
     }},
    // Source: megatron/core/transformer/moe/moe_layer.py, which raises while training.
    {LayoutKey::sequence_parallel,
     [](const LayoutCase& c) {
       return c.model.moe && c.grid().tp > 1 && !c.layout.sequence_parallel;
     },
     [](const LayoutCase& c) {
       return fmt::format("experts with tp = {} need sequence_parallel, which is off", c.grid().tp);
     }},
    {LayoutKey::sequence,
     [](const LayoutCase& c) { return c.grid().cp > 1 && c.batch.sequence % pieces(c) != 0; },
     [](const LayoutCase& c) {
       return fmt::format("sequence = {} does not split into {}cp = {} pieces", c.batch.sequence,
                          c.layout.context_split == ContextSplit::zigzag ? "2 * " : "", pieces(c));
     }},
    // Each rank gets whole heads of the full sequence.
    {LayoutKey::cp,
     [](const LayoutCase& c) {
       return c.grid().cp > 1 && c.layout.context == ContextKind::all_to_all &&
              heads_to_exchange(c) % product({c.grid().tp, c.grid().cp}) != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format("tp * cp = {} * {} does not divide the {} key-value heads (cp_kind a2a)",
                          c.grid().tp, c.grid().cp, heads_to_exchange(c));
     }},
    // Of one level alone Transformer Engine makes the other kinds: context_parallel.py,
    // attn_forward_func_with_cp.
    {LayoutKey::cp_a2a,
     [](const LayoutCase& c) {
       const int inner = c.layout.context_exchange;
       return exchanges_and_rings(c) &&
              (inner < 2 || inner == c.grid().cp || c.grid().cp % inner != 0);
     },
     [](const LayoutCase& c) {
       return fmt::format("cp_a2a = {} does not cut cp = {} into several groups of several ranks",
                          c.layout.context_exchange, c.grid().cp);
     }},
    {LayoutKey::cp_a2a,
     [](const LayoutCase& c) {
       return exchanges_and_rings(c) &&
              heads_to_exchange(c) % product({c.grid().tp, c.layout.context_exchange}) != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format(
           "tp * cp_a2a = {} * {} does not divide the {} key-value heads (cp_kind a2a+p2p)",
           c.grid().tp, c.layout.context_exchange, heads_to_exchange(c));
     }},
    // "The context parallel running configs cannot support sliding window": Transformer Engine v2,
    // pytorch/attention/dot_product_attention/context_parallel.py, attn_forward_func_with_cp. The
    // ring of PyTorch 2.14.1 knows no windows either:
    // distributed/tensor/experimental/_attention.py.
    {LayoutKey::cp,
     [](const LayoutCase& c) {
       return c.grid().cp > 1 && c.model.sliding_window > 0 &&
              (c.layout.context == ContextKind::ring || exchanges_and_rings(c));
     },
     [](const LayoutCase& c) {
       return fmt::format(
           "cp = {} of attention with a sliding window needs cp_kind all_gather or a2a: rings of "
           "keys and values take no windows",
           c.grid().cp);
     }},
    // With tp = 1 Megatron turns sequence_parallel off: legal, without effect.
    {LayoutKey::sequence,
     [](const LayoutCase& c) {
       return c.layout.sequence_parallel &&
              c.batch.sequence % product({c.grid().tp, c.grid().cp}) != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format("sequence = {} is not divided by tp * cp = {} * {} (sequence_parallel)",
                          c.batch.sequence, c.grid().tp, c.grid().cp);
     }},
    {LayoutKey::sequence,
     [](const LayoutCase& c) {
       return c.model.positions == PositionKind::learned && c.model.max_positions > 0 &&
              c.batch.sequence > c.model.max_positions;
     },
     [](const LayoutCase& c) {
       return fmt::format("sequence = {} is longer than the {} learned positions", c.batch.sequence,
                          c.model.max_positions);
     }},
};

constexpr LayoutRule kExpertRules[] = {
    {LayoutKey::ep, [](const LayoutCase& c) { return !c.model.moe && c.grid().ep > 1; },
     [](const LayoutCase& c) {
       return fmt::format("ep = {}, but the model has no experts", c.grid().ep);
     }},
    {LayoutKey::ep,
     [](const LayoutCase& c) { return c.model.moe && c.model.moe->experts % c.grid().ep != 0; },
     [](const LayoutCase& c) {
       return fmt::format("ep = {} does not divide the {} experts", c.grid().ep,
                          c.model.moe->experts);
     }},
    {LayoutKey::ep_inner,
     [](const LayoutCase& c) {
       const int inner = c.layout.expert_inner;
       return c.grid().ep > 1 && c.layout.dispatcher == TokenDispatcher::hierarchical &&
              (inner < 2 || inner == c.grid().ep || c.grid().ep % inner != 0);
     },
     [](const LayoutCase& c) {
       return fmt::format("ep_inner = {} does not cut ep = {} into several groups of several ranks",
                          c.layout.expert_inner, c.grid().ep);
     }},
    {LayoutKey::etp,
     [](const LayoutCase& c) { return c.model.moe && c.model.moe->expert_ffn % c.grid().etp != 0; },
     [](const LayoutCase& c) {
       return fmt::format("etp = {} does not divide the expert width {}", c.grid().etp,
                          c.model.moe->expert_ffn);
     }},
    // world = etp * ep * edp * pp on the ranks of the dense grid: megatron/core/parallel_state.py.
    {LayoutKey::etp,
     [](const LayoutCase& c) { return c.model.moe && c.ranks_per_stage() % c.grid().etp != 0; },
     [](const LayoutCase& c) {
       return fmt::format("etp = {} does not divide the tp * cp * dp = {} ranks of a stage",
                          c.grid().etp, c.ranks_per_stage());
     }},
    {LayoutKey::ep,
     [](const LayoutCase& c) {
       return c.model.moe && c.ranks_per_stage() % c.grid().etp == 0 &&
              c.ranks_per_stage() % product({c.grid().etp, c.grid().ep}) != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format(
           "etp * ep = {} * {} does not divide the tp * cp * dp = {} ranks of a stage",
           c.grid().etp, c.grid().ep, c.ranks_per_stage());
     }},
    {LayoutKey::order,
     [](const LayoutCase& c) {
       return c.model.moe && c.grid().pp > 1 && c.grid().order.back() != Dimension::pp &&
              c.ranks_per_stage() != product({c.grid().etp, c.grid().ep, c.grid().dp});
     },
     [](const LayoutCase& c) {
       return fmt::format(
           "an order without pp last needs equal data parallelism of both grids, but dp = {} and "
           "the "
           "experts have {} / ({} * {})",
           c.grid().dp, c.ranks_per_stage(), c.grid().etp, c.grid().ep);
     }},
};

}  // namespace

std::array<std::span<const LayoutRule>, 6> layout_rules() {
  return {kWorldRules,  sharding_rules(), kTensorRules,
          kExpertRules, pipeline_rules(), batch_rules()};
}

}  // namespace flopcast
