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
     [](const LayoutCase& c) {
       return c.grid().cp > 1 && c.batch.sequence % product({2, c.grid().cp}) != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format("sequence = {} does not split into 2 * cp = {} pieces", c.batch.sequence,
                          product({2, c.grid().cp}));
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

// Schedules of sail-sg/zero-bubble-pipeline-parallelism (39f2c186, megatron/training/arguments.py),
// which needs a pipeline for them.
bool is_zero_bubble_of_sail(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::zb_h1:
    case ScheduleKind::zb_h2:
    case ScheduleKind::zb_v:
    case ScheduleKind::v_half:
    case ScheduleKind::v_min:
    case ScheduleKind::one_f_one_b_v: return true;
    case ScheduleKind::gpipe:
    case ScheduleKind::one_f_one_b:
    case ScheduleKind::interleaved:
    case ScheduleKind::looped_bfs:
    case ScheduleKind::interleaved_zero_bubble:
    case ScheduleKind::zb_v_torch:
    case ScheduleKind::dualpipe:
    case ScheduleKind::dualpipe_v: return false;
  }
  return false;
}

bool is_dualpipe(const LayoutCase& c) { return c.layout.schedule == ScheduleKind::dualpipe; }

constexpr LayoutRule kPipelineRules[] = {
    {LayoutKey::pp,
     [](const LayoutCase& c) {
       return (c.interleaved() || is_zero_bubble_of_sail(c.layout.schedule)) && c.grid().pp < 2;
     },
     [](const LayoutCase& c) {
       return fmt::format("the {} schedule needs pp of at least 2",
                          schedule_name(c.layout.schedule));
     }},
    // Source: deepseek-ai/DualPipe 3da1bbea, dualpipe/dualpipe.py: half of the ranks mirror the
    // other half.
    {LayoutKey::pp, [](const LayoutCase& c) { return is_dualpipe(c) && c.grid().pp % 2 != 0; },
     [](const LayoutCase& c) {
       return fmt::format("pp = {} is odd, but DualPipe needs an even one", c.grid().pp);
     }},
    {LayoutKey::vpp, [](const LayoutCase& c) { return c.layout.vpp < c.chunks().least; },
     [](const LayoutCase& c) {
       return fmt::format("the {} schedule needs vpp of at least {}",
                          schedule_name(c.layout.schedule), c.chunks().least);
     }},
    {LayoutKey::vpp, [](const LayoutCase& c) { return c.layout.vpp > c.chunks().most; },
     [](const LayoutCase& c) {
       return fmt::format("vpp = {}, but the {} schedule takes at most {}; interleaved takes more",
                          c.layout.vpp, schedule_name(c.layout.schedule), c.chunks().most);
     }},
    {LayoutKey::pp,
     [](const LayoutCase& c) {
       return !c.explicit_split() && c.layers_to_split() % c.grid().pp != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format("pp = {} does not divide the {} layers", c.grid().pp,
                          c.layers_to_split());
     }},
    {LayoutKey::vpp,
     [](const LayoutCase& c) {
       return !c.explicit_split() && c.layers_to_split() % c.grid().pp == 0 &&
              c.layers_to_split() % c.stages() != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format("vpp = {} does not divide the {} layers of a pipeline rank", c.layout.vpp,
                          c.layers_to_split() / c.grid().pp);
     }},
    {LayoutKey::layers_per_stage,
     [](const LayoutCase& c) {
       return c.explicit_split() &&
              static_cast<std::int64_t>(c.layout.layers_per_stage.size()) != c.stages();
     },
     [](const LayoutCase& c) {
       return fmt::format("layers_per_stage has {} entries, but there are {} stages",
                          c.layout.layers_per_stage.size(), c.stages());
     }},
    {LayoutKey::layers_per_stage,
     [](const LayoutCase& c) {
       const std::vector<int>& layers = c.layout.layers_per_stage;
       return c.explicit_split() &&
              std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) != c.model.layers;
     },
     [](const LayoutCase& c) {
       const std::vector<int>& layers = c.layout.layers_per_stage;
       return fmt::format("layers_per_stage adds up to {}, but the model has {} layers",
                          std::accumulate(layers.begin(), layers.end(), std::int64_t{0}),
                          c.model.layers);
     }},
    // The ends may hold nothing but the embedding or the loss.
    {LayoutKey::layers_per_stage,
     [](const LayoutCase& c) {
       const std::vector<int>& layers = c.layout.layers_per_stage;
       return std::any_of(layers.begin(), layers.end(), [](int n) { return n < 0; }) ||
              (layers.size() > 2 &&
               std::any_of(layers.begin() + 1, layers.end() - 1, [](int n) { return n == 0; }));
     },
     [](const LayoutCase&) {
       return std::string("layers_per_stage leaves a stage between the ends without a layer");
     }},
    {LayoutKey::layers_per_stage,
     [](const LayoutCase& c) {
       return c.explicit_split() &&
              (c.layout.account_embedding_in_split || c.layout.account_loss_in_split);
     },
     [](const LayoutCase&) {
       return std::string(
           "layers_per_stage is explicit, so embedding and loss cannot be accounted for as well");
     }},
};

bool group_is_in_range(const LayoutCase& c) {
  return c.layout.micro_batch_group >= c.grid().pp &&
         c.layout.micro_batch_group <= c.micro_batches();
}

// The rounds of torch: as many as there are pipelines full of micro-batches.
std::int64_t equal_rounds(const LayoutCase& c) {
  return std::max<std::int64_t>(1, c.micro_batches() / c.grid().pp);
}

// Source of the interleaved rows: megatron/core/pipeline_parallel/schedules.py,
// forward_backward_pipelining_with_interleaving. Plain 1F1B takes any number of micro-batches, also
// fewer than stages (torch does not).
constexpr LayoutRule kBatchRules[] = {
    {LayoutKey::global_batch, [](const LayoutCase& c) { return !c.batch_divides(); },
     [](const LayoutCase& c) {
       return fmt::format("global_batch = {} is not a multiple of micro_batch * dp = {} * {}",
                          c.batch.global_batch, c.batch.micro_batch, c.grid().dp);
     }},
    {LayoutKey::global_batch,
     [](const LayoutCase& c) {
       return c.interleaved() && c.batch_divides() && c.micro_batches() < c.grid().pp;
     },
     [](const LayoutCase& c) {
       return fmt::format("{} micro-batches are fewer than the pp = {} of the interleaved schedule",
                          c.micro_batches(), c.grid().pp);
     }},
    {LayoutKey::global_batch,
     [](const LayoutCase& c) {
       return c.interleaved() && c.batch_divides() && !c.explicit_group() &&
              c.micro_batches() > c.grid().pp && c.micro_batches() % c.grid().pp != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format("{} micro-batches are not a multiple of pp = {} (interleaved schedule)",
                          c.micro_batches(), c.grid().pp);
     }},
    {LayoutKey::micro_batch_group,
     [](const LayoutCase& c) {
       return c.interleaved() && c.batch_divides() && c.explicit_group() && !group_is_in_range(c);
     },
     [](const LayoutCase& c) {
       return fmt::format("micro_batch_group = {} is not between pp = {} and the {} micro-batches",
                          c.layout.micro_batch_group, c.grid().pp, c.micro_batches());
     }},
    {LayoutKey::micro_batch_group,
     [](const LayoutCase& c) {
       const std::int64_t rest =
           group_is_in_range(c) ? c.micro_batches() % c.layout.micro_batch_group : 0;
       return c.interleaved() && c.batch_divides() && rest > 0 && rest < c.grid().pp;
     },
     [](const LayoutCase& c) {
       return fmt::format(
           "micro_batch_group = {} leaves a last group of {} of the {} micro-batches, fewer than "
           "pp = {}",
           c.layout.micro_batch_group, c.micro_batches() % c.layout.micro_batch_group,
           c.micro_batches(), c.grid().pp);
     }},
    // Source: PyTorch 2.14.1, torch/distributed/pipelining/schedules.py,
    // ScheduleInterleavedZeroBubble.
    {LayoutKey::global_batch,
     [](const LayoutCase& c) {
       return c.layout.schedule == ScheduleKind::interleaved_zero_bubble && c.batch_divides() &&
              c.micro_batches() % equal_rounds(c) != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format(
           "{} micro-batches do not split into {} equal rounds of at least pp = {} (interleaved "
           "zero bubble)",
           c.micro_batches(), equal_rounds(c), c.grid().pp);
     }},
    // Source: deepseek-ai/DualPipe 3da1bbea, dualpipe/dualpipe.py and dualpipe/dualpipev.py.
    {LayoutKey::global_batch,
     [](const LayoutCase& c) {
       return is_dualpipe(c) && c.batch_divides() && c.micro_batches() % 2 != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format("{} micro-batches are odd, but half of them enter DualPipe at each end",
                          c.micro_batches());
     }},
    {LayoutKey::global_batch,
     [](const LayoutCase& c) {
       return (is_dualpipe(c) || c.layout.schedule == ScheduleKind::dualpipe_v) &&
              c.batch_divides() && c.micro_batches() < product({2, c.grid().pp});
     },
     [](const LayoutCase& c) {
       return fmt::format("{} micro-batches are fewer than 2 * pp = {} of the {} schedule",
                          c.micro_batches(), product({2, c.grid().pp}),
                          schedule_name(c.layout.schedule));
     }},
};

}  // namespace

std::array<std::span<const LayoutRule>, 6> layout_rules() {
  return {kWorldRules, sharding_rules(), kTensorRules, kExpertRules, kPipelineRules, kBatchRules};
}

}  // namespace flopcast
