#include "models/layout.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "models/layout_rules.h"
#include "sim/check.h"

namespace flopcast {

namespace {

constexpr int kTries = 1 << 16;  // values tried for one key
constexpr std::size_t kNearest = 2;

std::string_view to_text(LayoutKey key) {
  switch (key) {
    case LayoutKey::tp: return "parallel.tp";
    case LayoutKey::cp: return "parallel.cp";
    case LayoutKey::cp_a2a: return "parallel.cp_a2a";
    case LayoutKey::ep: return "parallel.ep";
    case LayoutKey::ep_inner: return "parallel.ep_inner";
    case LayoutKey::dp: return "parallel.dp";
    case LayoutKey::pp: return "parallel.pp";
    case LayoutKey::etp: return "parallel.etp";
    case LayoutKey::vpp: return "parallel.vpp";
    case LayoutKey::zero: return "parallel.zero";
    case LayoutKey::shard: return "parallel.shard";
    case LayoutKey::reshard_after_forward: return "parallel.reshard_after_forward";
    case LayoutKey::sequence_parallel: return "parallel.sequence_parallel";
    case LayoutKey::micro_batch_group: return "parallel.micro_batch_group";
    case LayoutKey::layers_per_stage: return "parallel.layers_per_stage";
    case LayoutKey::order: return "parallel.order";
    case LayoutKey::sequence: return "training.sequence";
    case LayoutKey::micro_batch: return "training.micro_batch";
    case LayoutKey::global_batch: return "training.global_batch";
  }
  return {};
}

struct KeyValue {
  LayoutKey key;
  std::int64_t value;
};

/// The keys that count something.
std::vector<KeyValue> counts(const LayoutCase& c) {
  return {{LayoutKey::tp, c.grid().tp},
          {LayoutKey::cp, c.grid().cp},
          {LayoutKey::cp_a2a, c.layout.context_exchange},
          {LayoutKey::ep, c.grid().ep},
          {LayoutKey::ep_inner, c.layout.expert_inner},
          {LayoutKey::dp, c.grid().dp},
          {LayoutKey::pp, c.grid().pp},
          {LayoutKey::etp, c.grid().etp},
          {LayoutKey::vpp, c.layout.vpp},
          {LayoutKey::sequence, c.batch.sequence},
          {LayoutKey::micro_batch, c.batch.micro_batch},
          {LayoutKey::global_batch, c.batch.global_batch}};
}

/// Values of a key worth trying: multiples of step in [low, high], outwards from `from`.
/// Nothing to try where high < low.
struct Candidates {
  std::int64_t from = 0;
  std::int64_t low = 1;
  std::int64_t high = 0;
  std::int64_t step = 1;
};

Candidates candidates(const LayoutCase& c, LayoutKey key) {
  const std::int64_t degree = std::min<std::int64_t>(c.gpus, std::numeric_limits<int>::max());
  const std::int64_t depth = std::clamp<std::int64_t>(c.layers_to_split(), 1, kTries);
  switch (key) {
    case LayoutKey::tp: return {.from = c.grid().tp, .high = degree};
    case LayoutKey::cp: return {.from = c.grid().cp, .high = degree};
    case LayoutKey::cp_a2a: return {.from = c.layout.context_exchange, .high = c.grid().cp};
    case LayoutKey::ep: return {.from = c.grid().ep, .high = degree};
    case LayoutKey::ep_inner: return {.from = c.layout.expert_inner, .high = c.grid().ep};
    case LayoutKey::dp: return {.from = c.grid().dp, .high = degree};
    case LayoutKey::pp: return {.from = c.grid().pp, .high = degree};
    case LayoutKey::etp: return {.from = c.grid().etp, .high = degree};
    case LayoutKey::vpp: return {.from = c.layout.vpp, .high = depth};
    case LayoutKey::zero: return {.from = c.layout.zero, .low = 0, .high = 3};
    case LayoutKey::shard: return {.from = c.layout.shard, .high = degree};
    case LayoutKey::reshard_after_forward: return {.from = c.layout.reshard_ranks, .high = degree};
    case LayoutKey::sequence_parallel:
      return {.from = c.layout.sequence_parallel ? 1 : 0, .low = 0, .high = 1};
    case LayoutKey::micro_batch_group:
      return {.from = c.layout.micro_batch_group,
              .high = std::min<std::int64_t>(c.micro_batches(), std::numeric_limits<int>::max())};
    case LayoutKey::sequence: return {.from = c.batch.sequence, .high = kHuge};
    case LayoutKey::micro_batch: return {.from = c.batch.micro_batch, .high = c.batch.global_batch};
    case LayoutKey::global_batch:
      return {.from = c.batch.global_batch, .high = kHuge, .step = c.batch_unit()};
    case LayoutKey::layers_per_stage: return {};
    case LayoutKey::order: return {};
  }
  return {};
}

void set(LayoutCase& c, LayoutKey key, std::int64_t value) {
  const int narrow = static_cast<int>(value);  // candidates of int keys stay in its range
  switch (key) {
    case LayoutKey::tp: c.layout.grid.tp = narrow; break;
    case LayoutKey::cp: c.layout.grid.cp = narrow; break;
    case LayoutKey::cp_a2a: c.layout.context_exchange = narrow; break;
    case LayoutKey::ep: c.layout.grid.ep = narrow; break;
    case LayoutKey::ep_inner: c.layout.expert_inner = narrow; break;
    case LayoutKey::dp: c.layout.grid.dp = narrow; break;
    case LayoutKey::pp: c.layout.grid.pp = narrow; break;
    case LayoutKey::etp: c.layout.grid.etp = narrow; break;
    case LayoutKey::vpp: c.layout.vpp = narrow; break;
    case LayoutKey::zero: c.layout.zero = narrow; break;
    case LayoutKey::shard: c.layout.shard = narrow; break;
    case LayoutKey::reshard_after_forward: c.layout.reshard_ranks = narrow; break;
    case LayoutKey::sequence_parallel: c.layout.sequence_parallel = value != 0; break;
    case LayoutKey::micro_batch_group: c.layout.micro_batch_group = narrow; break;
    case LayoutKey::sequence: c.batch.sequence = value; break;
    case LayoutKey::micro_batch: c.batch.micro_batch = value; break;
    case LayoutKey::global_batch: c.batch.global_batch = value; break;
    case LayoutKey::layers_per_stage: break;
    case LayoutKey::order: break;
  }
}

/// All GPUs stay in use where tp, cp or pp change.
void let_dp_follow(LayoutCase& c) {
  const std::int64_t replica = product({c.grid().tp, c.grid().cp, c.grid().pp});
  if (c.gpus % replica == 0) c.layout.grid.dp = static_cast<int>(c.gpus / replica);
}

/// By rule, in the order of the tables.
std::vector<bool> broken_rules(const LayoutCase& c) {
  std::vector<bool> broken;
  for (const auto& table : layout_rules()) {
    for (const LayoutRule& rule : table) broken.push_back(rule.broken(c));
  }
  return broken;
}

/// Whether a trial obeys the rules of the key it changed, and breaks no other that held before.
bool helps(const LayoutCase& trial, LayoutKey key, const std::vector<bool>& broken_before) {
  std::size_t row = 0;
  for (const auto& table : layout_rules()) {
    for (const LayoutRule& rule : table) {
      const bool held = !broken_before[row++];
      if ((held || rule.key == key) && rule.broken(trial)) return false;
    }
  }
  return true;
}

std::vector<std::int64_t> nearest_legal(const LayoutCase& c, LayoutKey key) {
  const Candidates range = candidates(c, key);
  std::vector<std::int64_t> found;
  if (range.high < range.low || range.step > range.high) return found;
  const std::int64_t from = std::clamp(range.from, range.low, range.high);
  const std::vector<bool> broken_before = broken_rules(c);
  const bool moves_dp = key == LayoutKey::tp || key == LayoutKey::cp || key == LayoutKey::pp;
  LayoutCase trial = c;
  std::int64_t below = from / range.step * range.step;
  std::int64_t above = below + range.step;
  for (int tries = 0; tries < kTries && found.size() < kNearest; ++tries) {
    if (below < range.low && above > range.high) break;
    const bool down = below >= range.low && (above > range.high || from - below <= above - from);
    const std::int64_t candidate = down ? below : above;
    if (down) {
      below -= range.step;
    } else {
      above += range.step;
    }
    set(trial, key, candidate);
    if (moves_dp) let_dp_follow(trial);
    if (candidate != range.from && helps(trial, key, broken_before)) found.push_back(candidate);
  }
  return found;
}

/// Rules divide by counts, so these come first.
std::vector<LayoutViolation> counts_below_one(const LayoutCase& c) {
  std::vector<LayoutViolation> violations;
  for (const auto& [key, value] : counts(c)) {
    if (value >= 1) continue;
    violations.push_back({.key = std::string(to_text(key)),
                          .problem = fmt::format("{} = {} is less than 1", to_text(key), value),
                          .nearest = {1}});
  }
  if (c.layout.micro_batch_group < 0) {
    violations.push_back(
        {.key = std::string(to_text(LayoutKey::micro_batch_group)),
         .problem = fmt::format("micro_batch_group = {} is negative", c.layout.micro_batch_group),
         .nearest = {0}});
  }
  return violations;
}

}  // namespace

std::vector<LayoutViolation> layout_violations(const Transformer& model, const Layout& layout,
                                               const BatchShape& batch, int gpus) {
  const LayoutCase c{.model = model, .layout = layout, .batch = batch, .gpus = gpus};
  std::vector<LayoutViolation> violations = counts_below_one(c);
  if (!violations.empty()) return violations;
  for (const auto& table : layout_rules()) {
    for (const LayoutRule& rule : table) {
      if (!rule.broken(c)) continue;
      violations.push_back({.key = std::string(to_text(rule.key)),
                            .problem = rule.problem(c),
                            .nearest = nearest_legal(c, rule.key)});
    }
  }
  return violations;
}

bool layout_is_legal(const Transformer& model, const Layout& layout, const BatchShape& batch,
                     int gpus) {
  const LayoutCase c{.model = model, .layout = layout, .batch = batch, .gpus = gpus};
  if (!counts_below_one(c).empty()) return false;
  for (const auto& table : layout_rules()) {
    if (std::ranges::any_of(table, [&](const LayoutRule& rule) { return rule.broken(c); })) {
      return false;
    }
  }
  return true;
}

std::int64_t micro_batches(const Layout& layout, const BatchShape& batch) {
  return batch.global_batch / (batch.micro_batch * layout.grid.dp);
}

// Megatron's get_num_layers_to_build (megatron/core/transformer/transformer_block.py, d98e8a64):
// embedding and loss count as layers while the stages are cut, and are then taken off the ends.
std::vector<StageContent> split_layers(const Transformer& model, const Layout& layout) {
  const auto stages = static_cast<std::size_t>(
      stage_count({placement_of(layout.schedule), layout.grid.pp, layout.vpp}));
  const std::int64_t embedding = layout.account_embedding_in_split ? 1 : 0;
  const std::int64_t loss = layout.account_loss_in_split ? 1 : 0;
  const std::int64_t even = (model.layers + embedding + loss) / static_cast<std::int64_t>(stages);
  std::vector<StageContent> contents(stages);
  std::int64_t next = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    StageContent& stage = contents[s];
    stage.embedding = s == 0;
    stage.head = s + 1 == stages;
    stage.first_layer = next;
    stage.layers = layout.layers_per_stage.empty()
                       ? even - (stage.embedding ? embedding : 0) - (stage.head ? loss : 0)
                       : layout.layers_per_stage.at(s);
    next += stage.layers;
  }
  FLOPCAST_CHECK(next == model.layers, "layout_violations lets no other split pass");
  return contents;
}

}  // namespace flopcast
