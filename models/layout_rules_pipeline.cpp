#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/layout_rules.h"

// Stages, and the micro-batches that a schedule takes. Source, unless a row names another: as in
// layout_rules.cpp.

namespace flopcast {
namespace {

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
    // Source: Megatron-LM d98e8a64, megatron/core/model_parallel_config.py,
    // overlap_moe_expert_parallel_comm.
    {LayoutKey::vpp,
     [](const LayoutCase& c) {
       return c.layout.overlap_expert_exchange && c.grid().pp > 1 && !c.interleaved();
     },
     [](const LayoutCase& c) {
       return fmt::format("overlap_expert_exchange with pp = {} needs the interleaved schedule",
                          c.grid().pp);
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

std::span<const LayoutRule> pipeline_rules() { return kPipelineRules; }
std::span<const LayoutRule> batch_rules() { return kBatchRules; }

}  // namespace flopcast
