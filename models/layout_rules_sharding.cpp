#include <fmt/format.h>

#include "models/layout_rules.h"

// Who shares what ZeRO shards. Source: PyTorch 2.14.1, torch/distributed/device_mesh.py
// (dp_replicate times dp_shard is dp) and torch/distributed/fsdp/_fully_shard/_fsdp_init.py,
// _get_post_forward_mesh_info.

namespace flopcast {
namespace {

std::int64_t ranks_of_copy(const LayoutCase& c) {
  return c.layout.shard > 0 ? c.layout.shard : product({c.grid().dp, c.grid().cp});
}

constexpr LayoutRule kShardingRules[] = {
    {LayoutKey::shard,
     [](const LayoutCase& c) {
       return c.layout.shard > 0 && product({c.grid().dp, c.grid().cp}) % c.layout.shard != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format("shard = {} does not divide the dp * cp = {} * {} data-parallel ranks",
                          c.layout.shard, c.grid().dp, c.grid().cp);
     }},
    {LayoutKey::zero, [](const LayoutCase& c) { return c.layout.shard > 0 && c.layout.zero == 0; },
     [](const LayoutCase& c) {
       return fmt::format("zero = 0 shards nothing, but shard = {}", c.layout.shard);
     }},
    {LayoutKey::reshard_after_forward,
     [](const LayoutCase& c) {
       return c.layout.reshard_ranks > 0 && ranks_of_copy(c) % c.layout.reshard_ranks != 0;
     },
     [](const LayoutCase& c) {
       return fmt::format(
           "reshard_after_forward = {} does not divide the {} ranks of a shard group",
           c.layout.reshard_ranks, ranks_of_copy(c));
     }},
};

}  // namespace

std::span<const LayoutRule> sharding_rules() { return kShardingRules; }

}  // namespace flopcast
