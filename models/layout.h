#pragma once

// How a job is split over ranks, and which splits the frameworks accept.

#include <cstdint>
#include <string>
#include <vector>

#include "models/transformer.h"
#include "topology/process_groups.h"

namespace flopcast {

enum class ScheduleKind : std::uint8_t {
  gpipe,
  one_f_one_b,
  interleaved,
  looped_bfs,
  interleaved_zero_bubble,
  zb_h1,
  zb_h2,
  zb_v,        // found by the search of its authors
  zb_v_torch,  // the fixed order of torch: same makespan where hops are free
  v_half,
  v_min,
  one_f_one_b_v,
  dualpipe,
  dualpipe_v,
};

/// How ranks that share a sequence get at each other's keys and values.
enum class ContextKind : std::uint8_t {
  ring,               // sends round a ring, beside attention ("p2p")
  all_gather,         // before attention
  all_to_all,         // heads for sequence and back (Ulysses)
  exchange_and_ring,  // heads for sequence among neighbours, a ring of such groups ("a2a+p2p")
};

/// Which tokens the ranks of a sequence hold.
enum class ContextSplit : std::uint8_t {
  zigzag,      // pieces i and 2 cp - 1 - i of 2 cp: equal work under a causal mask
  contiguous,  // piece i of cp: the last rank sees all keys
};

/// How tokens travel to the ranks that hold their experts.
enum class TokenDispatcher : std::uint8_t {
  all_to_all,     // a copy for each expert
  once_per_node,  // a copy for each node, forwarded inside it ("deepep")
  all_gather,     // every rank gets all tokens and takes those of its experts
  hierarchical,   // a copy for each expert, inside nodes to the rank in line, then between nodes
};

/// When ranks under ZeRO-3 give up the parameters that they gathered for the forward pass. Names
/// are torchtitan's.
enum class Reshard : std::uint8_t {
  all_but_last,  // "default": the last module of the forward pass is the first of the backward pass
  always,
  never,  // until the backward pass is through
};

struct Layout {
  ParallelGrid grid{};  // tp cp ep dp pp etp and the rank order
  int vpp = 1;          // virtual pipeline: model chunks per rank
  int zero = 0;         // 0 none, 1 distributed optimizer, 2 + gradients, 3 + parameters
  /// Ranks of dp * cp that share one copy of what ZeRO shards; 0: all. The others hold copies
  /// (HSDP, MiCS, ZeRO-1 in groups).
  int shard = 0;
  Reshard reshard = Reshard::all_but_last;
  /// Between forward and backward pass the parameters stay sharded over so few neighbours instead
  /// (FSDP2's reshard_after_forward as a number, hpZ of ZeRO++); 0: over all.
  int reshard_ranks = 0;
  bool sequence_parallel = false;
  ContextKind context = ContextKind::ring;
  ContextSplit context_split = ContextSplit::zigzag;
  int context_exchange = 1;  // neighbours of cp that exchange_and_ring has exchange heads
  TokenDispatcher dispatcher = TokenDispatcher::all_to_all;
  int expert_inner = 1;  // neighbours of ep that the hierarchical dispatcher has exchange first
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  /// 1F1B, plain without a pipeline or interleaved: the forward and the backward pass of a turn run
  /// side by side, layer beside layer, so that the exchanges of one hide behind the work of the
  /// other. Megatron's overlap_moe_expert_parallel_comm.
  bool overlap_expert_exchange = false;
  int micro_batch_group = 0;            // interleaved: group size per virtual stage; 0 means pp
  std::vector<int> layers_per_stage{};  // explicit split, one entry per global stage; empty: even
  bool account_embedding_in_split = false;  // Megatron: the embedding counts as a layer of stage 0
  bool account_loss_in_split = false;       // and the output layer as one of the last stage
};

/// Ranks that share one copy of what ZeRO shards.
inline int shard_ranks(const Layout& layout) {
  return layout.shard > 0 ? layout.shard : layout.grid.dp * layout.grid.cp;
}

/// Ranks of a group that passes keys and values on, or gathers them.
inline int ring_ranks(const Layout& layout) {
  const int neighbours =
      layout.context == ContextKind::exchange_and_ring ? layout.context_exchange : 1;
  return layout.grid.cp / neighbours;
}

/// Whether the ranks of a sequence have unlike shares of causal attention.
inline bool context_differs(const Layout& layout) {
  return layout.context_split == ContextSplit::contiguous &&
         layout.context != ContextKind::all_to_all && ring_ranks(layout) > 1;
}

/// One broken rule: which key, what it is, what it must be, the nearest legal values.
struct LayoutViolation {
  std::string key;                    // scenario key: "parallel.tp"
  std::string problem;                // "tp = 3 does not divide the 64 attention heads"
  std::vector<std::int64_t> nearest;  // legal values of the key near the one given, nearest first
};

/// What a legality check must know besides model and layout.
struct BatchShape {
  std::int64_t sequence = 0;
  std::int64_t micro_batch = 1;
  std::int64_t global_batch = 1;  // sequences per optimizer step
};

/// Every rule that the layout breaks; empty when it is legal. Rules and sources: layout_rules.cpp.
/// `nearest` holds at most two values that obey the rules about this key and break no other rule
/// that held, all other keys as they are, except that dp follows where tp, cp or pp change. Any
/// numbers may be asked about.
std::vector<LayoutViolation> layout_violations(const Transformer& model, const Layout& layout,
                                               const BatchShape& batch, int gpus);

/// Whether nothing is broken; much faster, as a search needs it.
bool layout_is_legal(const Transformer& model, const Layout& layout, const BatchShape& batch,
                     int gpus);

/// global_batch / (micro_batch * dp). Only for legal layouts.
std::int64_t micro_batches(const Layout& layout, const BatchShape& batch);

/// What one global pipeline stage holds. The schedule says where it lies (stage_of).
struct StageContent {
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  bool embedding = false;
  bool head = false;  // final norm, logits, loss
};

/// By global stage: vpp * pp, or pp where each rank holds two copies. Only for legal layouts.
std::vector<StageContent> split_layers(const Transformer& model, const Layout& layout);

}  // namespace flopcast
