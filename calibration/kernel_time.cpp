#include <algorithm>
#include <cmath>
#include <limits>

#include "calibration/profile.h"
#include "sim/check.h"

namespace flopcast {
namespace {

std::size_t index_of(DataType type) { return static_cast<std::size_t>(type); }

struct Tile {
  double m;
  double n;
};

// Output tiles and split-K factors among which a library's heuristics choose.
constexpr std::array kTiles{Tile{256, 128}, Tile{128, 256}, Tile{128, 128},
                            Tile{128, 64},  Tile{64, 128},  Tile{64, 64}};
constexpr std::array kSplits{1.0, 2.0, 4.0, 8.0};
constexpr Bytes kResultInTables = bytes(2);  // per element of C where the curves were fitted
constexpr Bytes kPartialSum = bytes(4);      // split-K adds up in fp32

// Reuse of operands in a tile: I = Tm Tn / (Tm + Tn), saturating at c_tile, 1 for 256 x 128.
double tile_efficiency(Tile tile, double c_tile) {
  const auto part = [c_tile](Tile t) {
    const double intensity = t.m * t.n / (t.m + t.n);
    return intensity / (intensity + c_tile);
  };
  return part(tile) / part(kTiles.front());
}

constexpr double kCacheEdge = 8;   // how sharply a cache overflows: half is missed at its size
constexpr Bytes kCast = bytes(3);  // per element of a cast from 16 to 8 bits
constexpr double kWaveTile = 128;  // side of the tiles by which waves are counted

/// Part of a working set that is streamed again and again which the cache does not keep.
double missed(const L2Cache& l2, Bytes working_set) {
  const double over = std::pow(working_set / l2.size, kCacheEdge);
  return over / (1 + over);
}

/// One pass of a memory kernel, through the cache as far as it keeps what is moved.
Seconds streaming_time(const Profile& profile, Bytes moved, double efficiency) {
  const Seconds slow = moved / (profile.memory_bandwidth * efficiency);
  if (!profile.l2) return slow;
  const double miss = missed(*profile.l2, moved);
  return miss * slow + (1 - miss) * std::min(slow, moved / profile.l2->bandwidth);
}

/// How long clocks have to sink: training lasts, a table's run is one kernel.
enum class RunLength : std::uint8_t { lasting, one_kernel };

Seconds at_sunk_clocks(const GemmCurve& curve, Seconds compute, RunLength length) {
  if (!curve.clock || compute.value <= 0) return compute;
  const double reached =
      length == RunLength::lasting ? 1 : compute / (compute + curve.clock->settle);
  return compute * (1 + curve.clock->sag * reached);
}

Seconds compute_time(const GemmCurve& curve, const GemmShape& shape, FlopsPerSecond rate_per_sm,
                     int sms, BytesPerSecond achieved_bandwidth) {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const auto batch = static_cast<double>(shape.batch);
  Seconds best{std::numeric_limits<double>::infinity()};
  for (const Tile tile : kTiles) {
    const double tiles = std::ceil(m / tile.m) * std::ceil(n / tile.n) * batch;
    const FlopsPerSecond rate = rate_per_sm * tile_efficiency(tile, curve.c_tile);
    for (const double split : kSplits) {
      const double full = tiles * split / sms;
      const double waves =
          (1 - curve.q_wave) * std::max(full, 1.0) + curve.q_wave * std::ceil(full);
      Seconds time = waves * flops(2 * tile.m * tile.n * (k / split + curve.k0)) / rate;
      if (split > 1) {
        time += kPartialSum * (m * n * batch * split) / (2 * achieved_bandwidth);
      }
      best = std::min(best, time);
    }
  }
  return best;
}

double result_elements(const GemmShape& shape) {
  return static_cast<double>(shape.m) * static_cast<double>(shape.n) *
         static_cast<double>(shape.batch);
}

// What C moves beyond the 16 bits of the tables comes at the end of each tile and is not hidden
// behind products: weight gradients that are added up. Assumed: no public table measures it.
Seconds unhidden_result(const Profile& profile, const GemmShape& shape) {
  if (shape.result_traffic <= kResultInTables) return {};
  const MemoryCurve& streaming =
      profile.memory[static_cast<std::size_t>(MemoryKernel::elementwise)];
  const Bytes more = (shape.result_traffic - kResultInTables) * result_elements(shape);
  return more / (profile.memory_bandwidth * streaming.efficiency);
}

Seconds soft_maximum(Seconds a, Seconds b, double p) {
  const Seconds larger = std::max(a, b);
  if (larger.value <= 0) {
    return larger;
  }
  const double ratio = std::min(a, b) / larger;
  return larger * std::pow(1 + std::pow(ratio, p), 1 / p);
}

DataType stand_in(DataType type) {
  switch (type) {
    case DataType::fp32:
    case DataType::tf32:
    case DataType::fp16:
    case DataType::bf16: return DataType::bf16;
    case DataType::mxfp8: return DataType::fp8_blockwise;
    case DataType::fp8:
    case DataType::fp8_blockwise:
    case DataType::nvfp4: return DataType::fp8;
  }
  return type;
}

// Of the type, of its stand-in, or of what stands in for that.
const GemmCurve* gemm_curve(const Profile& profile, DataType type) {
  for (const DataType known : {type, stand_in(type), stand_in(stand_in(type))}) {
    if (const auto& curve = profile.gemm[index_of(known)]) return &*curve;
  }
  return nullptr;
}

DataType attention_type(DataType type) {
  switch (type) {
    case DataType::fp32: return DataType::tf32;
    case DataType::tf32: return DataType::tf32;
    case DataType::fp16: return DataType::fp16;
    case DataType::bf16:
    case DataType::fp8:
    case DataType::fp8_blockwise:
    case DataType::mxfp8:
    case DataType::nvfp4: return DataType::bf16;
  }
  return type;
}

/// How often A is read where tiles go column by column: a wave of 128 x 128 tiles covers sms * 128
/// / m tile columns, one at least.
double reads_of_a(const Profile& profile, DataType type, const GemmShape& shape) {
  if (!profile.l2 || !gemm_curve(profile, type)->rereads_a) return 1;
  const auto m = static_cast<double>(shape.m);
  const double columns = kWaveTile * std::max(profile.sms * kWaveTile / m, 1.0);
  const double waves = std::max(static_cast<double>(shape.n) / columns, 1.0);
  const Bytes a = element_size(type) * (m * static_cast<double>(shape.k));
  return 1 + (waves - 1) * missed(*profile.l2, a);
}

// Operands in `type`, the result in 16 bits.
Bytes gemm_traffic(const Profile& profile, DataType type, const GemmShape& shape) {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  return (element_size(type) * (m * k * reads_of_a(profile, type, shape) + k * n) +
          kResultInTables * (m * n)) *
         static_cast<double>(shape.batch);
}

Seconds product_time(const Profile& profile, DataType type, const GemmShape& shape,
                     RunLength length) {
  const GemmCurve& curve = *gemm_curve(profile, type);
  const FlopsPerSecond rate_per_sm =
      *profile.peak_dense[index_of(type)] * (curve.eff_inf * profile.level / profile.sms);
  const BytesPerSecond bandwidth = profile.memory_bandwidth * curve.eff_bw;
  const Seconds compute = at_sunk_clocks(
      curve, compute_time(curve, shape, rate_per_sm, profile.sms, bandwidth), length);
  const Seconds memory = gemm_traffic(profile, type, shape) / bandwidth;
  return soft_maximum(compute, memory, curve.p) + curve.t0 + unhidden_result(profile, shape);
}

/// The curve of a pass and kernel whose head dimension is nearest; null where there is none.
const AttentionCurve* nearest_curve(const Profile& profile, std::int64_t head_dim,
                                    AttentionPass pass, AttentionKernel kernel) {
  const auto distance = [head_dim](const AttentionCurve& curve) {
    return std::abs(static_cast<double>(head_dim - curve.head_dim));
  };
  const AttentionCurve* nearest = nullptr;
  for (const AttentionCurve& curve : profile.attention) {
    if (curve.pass != pass || curve.kernel != kernel) continue;
    if (nearest == nullptr || distance(curve) < distance(*nearest)) nearest = &curve;
  }
  return nearest;
}

}  // namespace

Flops attention_flops(const AttentionShape& shape, AttentionPass pass) {
  const double pairs = static_cast<double>(shape.batch) * static_cast<double>(shape.heads) *
                       static_cast<double>(shape.queries) * static_cast<double>(shape.keys);
  const Flops forward = flops(2 * pairs * static_cast<double>(shape.qk_dim + shape.v_dim)) *
                        (shape.causal ? 0.5 : 1.0);
  switch (pass) {
    case AttentionPass::forward: return forward;
    // Five products instead of two: scores again, dV, dP, dQ, dK (Dao et al., 2205.14135).
    case AttentionPass::backward: return 2.5 * forward;
  }
  return forward;
}

bool has_gemm(const Profile& profile, DataType type) {
  return profile.peak_dense[index_of(type)] && gemm_curve(profile, type) != nullptr;
}

TimeEstimate gemm_time(const Profile& profile, DataType type, const GemmShape& shape) {
  FLOPCAST_CHECK(has_gemm(profile, type), "the reader refuses precisions that a profile lacks");
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0 || shape.batch <= 0) {
    return {.time = {}, .evidence = Evidence::measured};
  }
  const bool borrowed = !profile.gemm[index_of(type)];
  const Evidence own =
      borrowed ? Evidence::assumed : profile.gemm[index_of(type)]->provenance.evidence;
  return {.time = product_time(profile, type, shape, RunLength::lasting),
          .evidence = weakest(own, profile.level_provenance.evidence)};
}

Seconds tabled_gemm_time(const Profile& profile, DataType type, const GemmShape& shape,
                         bool casts) {
  const Seconds product = product_time(profile, type, shape, RunLength::one_kernel);
  const auto& curve = profile.gemm[index_of(type)];
  if (!casts || !curve || !curve->eff_quantise_bw) return product;
  const double elements = static_cast<double>(shape.m) * static_cast<double>(shape.k) *
                          static_cast<double>(shape.batch);
  // A pass that casts and, of scales by tensor, one before it that looks for the largest value.
  const Bytes cast = std::min(curve->quantise_traffic, kCast);
  return product + streaming_time(profile, cast * elements, *curve->eff_quantise_bw) +
         streaming_time(profile, (curve->quantise_traffic - cast) * elements,
                        *curve->eff_quantise_bw);
}

TimeEstimate attention_time(const Profile& profile, DataType type, const AttentionShape& shape,
                            AttentionPass pass, AttentionKernel kernel) {
  const auto& preferred = profile.peak_dense[index_of(attention_type(type))];
  const auto& peak = preferred ? preferred : profile.peak_dense[index_of(type)];
  FLOPCAST_CHECK(peak, "the reader refuses precisions that a profile lacks");
  const AttentionCurve* nearest = nearest_curve(profile, shape.qk_dim, pass, kernel);
  const bool borrowed = nearest == nullptr;
  if (borrowed) nearest = nearest_curve(profile, shape.qk_dim, pass, AttentionKernel::newest);
  FLOPCAST_CHECK(nearest != nullptr, "the reader wants a curve of each pass");
  const Flops work = attention_flops(shape, pass);
  if (work.value <= 0) {
    return {.time = {}, .evidence = Evidence::measured};
  }
  const double visible = static_cast<double>(shape.keys) * (shape.causal ? 0.5 : 1.0);
  const double saturation = 1 + nearest->s0 / visible;
  const FlopsPerSecond rate = *peak * (nearest->eff_inf * profile.level);
  const Evidence own = borrowed ? Evidence::assumed : nearest->provenance.evidence;
  return {.time = work * saturation / rate + nearest->t0,
          .evidence = weakest(own, profile.level_provenance.evidence)};
}

Seconds cache_copy_in_tables(const Profile& profile, std::int64_t head_dim, AttentionPass pass,
                             Bytes moved) {
  const AttentionCurve* curve = nearest_curve(profile, head_dim, pass, AttentionKernel::newest);
  if (curve == nullptr || !curve->eff_cache_bw) return {};
  return moved / (profile.memory_bandwidth * *curve->eff_cache_bw);
}

TimeEstimate memory_time(const Profile& profile, MemoryKernel kernel, Bytes moved) {
  const MemoryCurve& curve = profile.memory[static_cast<std::size_t>(kernel)];
  if (moved.value <= 0) {
    return {.time = {}, .evidence = Evidence::measured};
  }
  return {.time = moved / (profile.memory_bandwidth * curve.efficiency) + curve.t0,
          .evidence = curve.provenance.evidence};
}

}  // namespace flopcast
