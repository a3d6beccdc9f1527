#pragma once

// The rules that a layout must obey, as rows of tables: the key to change, when the rule is broken,
// and how to say so. Private to layout.cpp and layout_rules*.cpp.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "models/layout.h"
#include "models/pipeline_schedule.h"

namespace flopcast {

enum class LayoutKey : std::uint8_t {
  tp,
  cp,
  cp_a2a,
  ep,
  ep_inner,
  dp,
  pp,
  etp,
  vpp,
  zero,
  shard,
  reshard_after_forward,
  sequence_parallel,
  micro_batch_group,
  layers_per_stage,
  order,
  sequence,
  micro_batch,
  global_batch,
};

inline constexpr std::int64_t kHuge = std::int64_t{1} << 60;  // where products saturate

/// Of positive factors; kHuge instead of an overflow.
std::int64_t product(std::initializer_list<std::int64_t> factors);

/// The question that is asked: one layout of one model on one cluster. All counts are positive.
struct LayoutCase {
  const Transformer& model;
  Layout layout;
  BatchShape batch;
  std::int64_t gpus;

  const ParallelGrid& grid() const { return layout.grid; }
  bool interleaved() const { return layout.schedule == ScheduleKind::interleaved; }
  bool explicit_split() const { return !layout.layers_per_stage.empty(); }
  bool explicit_group() const { return layout.micro_batch_group > 0; }
  bool has_dense_mlp() const;
  /// Embedding and loss count as a layer each where the split accounts for them.
  std::int64_t layers_to_split() const;
  /// Both copies of a model that DualPipe holds are cut alike.
  std::int64_t stages() const;
  ChunkRange chunks() const { return chunk_range(layout.schedule); }
  std::int64_t ranks_per_stage() const { return product({grid().tp, grid().cp, grid().dp}); }
  std::int64_t batch_unit() const { return product({batch.micro_batch, grid().dp}); }
  bool batch_divides() const { return batch.global_batch % batch_unit() == 0; }
  std::int64_t micro_batches() const { return batch.global_batch / batch_unit(); }
};

struct LayoutRule {
  LayoutKey key;
  bool (*broken)(const LayoutCase& c);
  std::string (*problem)(const LayoutCase& c);
};

/// Who shares what is sharded: layout_rules_sharding.cpp.
std::span<const LayoutRule> sharding_rules();
/// Stages, chunks, micro-batches: layout_rules_pipeline.cpp.
std::span<const LayoutRule> pipeline_rules();
std::span<const LayoutRule> batch_rules();

/// Tables by topic: GPUs, sharding, tensor and context parallel, experts, pipeline, batch.
std::array<std::span<const LayoutRule>, 6> layout_rules();

}  // namespace flopcast
