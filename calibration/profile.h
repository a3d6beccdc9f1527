#pragma once

// What is known of one kind of GPU and its interconnect by measurement: the curves that turn shapes
// and sizes into time. A profile is a value, read from a JSON file (calibration/profiles/) by
// scenarios/; the forms and their fits are described beside each struct.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibration/nccl_model.h"
#include "calibration/network_path.h"
#include "calibration/provenance.h"
#include "calibration/regimes.h"
#include "sim/collective_kind.h"
#include "sim/data_type.h"
#include "sim/evidence.h"
#include "sim/units.h"

namespace flopcast {

/// A card at its power limit: dense work starts at full clocks and sinks the longer it lasts.
/// Compute that would take T at full clocks takes T * (1 + sag * T / (T + settle)). Short runs of
/// tables see a part of it; training lasts, and sees all of it.
struct ClockSag {
  double sag = 0;
  Seconds settle;
};

/// Tile-and-wave model of a GEMM with a soft maximum of compute and memory time.
///   compute = min over tiles Tm x Tn and split-K s of
///             waves * 2 * Tm * Tn * (K/s + k0) / (peak / SMs * eff_inf * e_tile)
///   w = ceil(M/Tm) * ceil(N/Tn) * s / SMs; waves = (1-q) * max(w, 1) + q * ceil(w)
///   e_tile = I / (I + c_tile), I = Tm*Tn/(Tm+Tn), relative to the 256x128 tile
///   split-K > 1 adds 4 s M N bytes of partial sums, written and reduced at 2 * bandwidth * eff_bw
///   memory = bytes / (bandwidth * eff_bw); time = (compute^p + memory^p)^(1/p) + t0
/// Form and parameters chosen on aiconfigurator's tables (calibration/README.md).
struct GemmCurve {
  double eff_inf = 0;
  double eff_bw = 0;
  Seconds t0;
  double k0 = 0;      // elements of K
  double c_tile = 0;  // elements
  double q_wave = 0;  // hardness of wave quantisation, 0..1
  double p = 0;       // exponent of the soft maximum
  /// Of 8-bit tables that time the casts of A with its products: their part of the bandwidth and
  /// traffic per element. Not part of gemm_time.
  std::optional<double> eff_quantise_bw;
  Bytes quantise_traffic;
  Provenance provenance;
  std::optional<ClockSag> clock{};
  /// Whether tiles are taken column by column: A, once it exceeds the L2 cache, is read again for
  /// the columns of each wave. Needs Profile::l2.
  bool rereads_a = false;
};

enum class AttentionPass : std::uint8_t { forward, backward };

/// Which generation of fused kernels computes attention; oldest first.
enum class AttentionKernel : std::uint8_t {
  flash1,  // FlashAttention of 2022 and its Triton version (Dao et al., 2205.14135)
  flash2,  // FlashAttention-2 (Dao, 2307.08691), torch's scaled_dot_product_attention on Hopper
  newest,  // the best that the GPU has: cuDNN or FlashAttention-3 on Hopper, 2 on Ampere
};
inline constexpr std::size_t kAttentionKernels = 3;

/// Fused attention: time = flops * (1 + s0 / s) / (peak * eff_inf) + t0, s the keys that a query
/// sees in the mean: all of them, or half under a causal mask.
struct AttentionCurve {
  int head_dim = 128;
  AttentionPass pass = AttentionPass::forward;
  AttentionKernel kernel = AttentionKernel::newest;
  double eff_inf = 0;
  double s0 = 0;  // tokens
  Seconds t0;
  Provenance provenance;
  /// Of prefill tables, which copy keys and values into a cache first: that copy's part of the
  /// bandwidth. Not part of attention_time.
  std::optional<double> eff_cache_bw{};
};

/// Kernels that are bound by memory; each reaches its own part of the bandwidth.
enum class MemoryKernel : std::uint8_t {
  elementwise,  // residual, bias, dropout, activation, cast: streaming
  norm_forward,
  norm_backward,
  rotary,
  softmax,    // cross-entropy and unfused attention softmax
  embedding,  // gather and scatter of rows
  optimizer,  // fused Adam
  permute,    // MoE token order
  quantise,   // casts of operands to 8 and 4 bits, and their transposed copies
};
inline constexpr std::size_t kMemoryKernels = 9;

/// time = bytes moved / (bandwidth * efficiency) + t0
struct MemoryCurve {
  double efficiency = 0;
  Seconds t0;
  Provenance provenance;
};

/// Measured times of one collective in one group shape, sizes ascending, times not descending.
/// Sizes are whole buffers as in nccl-tests. The curve holds only on wires like those it was
/// measured on, within 5 %.
struct CollectiveCurve {
  CollectiveKind kind{};
  GroupShape shape;
  BytesPerSecond domain;   // as in NetworkPath
  BytesPerSecond network;  // as in NetworkPath; 0 inside one domain
  bool sharp = false;      // as in NetworkPath
  std::vector<Bytes> sizes;
  std::vector<Seconds> times;
  Provenance provenance;
};

/// One way in which an algorithm uses one tier of links. With `latency` L the sum of the steps and
/// `transfer` T = bytes / (bandwidth * efficiency):
///   time = L + T + ramp * sqrt(L * T)
/// A buffer cut into the best number of pieces, pipelined over the steps, takes (sqrt L + sqrt
/// T)^2, ramp = 2; NCCL keeps several pieces under way, which makes it smaller. This is the slow
/// ramp between 64 KB and 1 GB that no alpha-beta line has. Fitted: tools/scripts/make_profile.py.
struct TierParameters {
  Seconds base;           // launch and protocol, once
  Seconds hop;            // one step of a ring, one level of a tree, one peer of an all-to-all
  double efficiency = 0;  // reached part of the tier's bandwidth at large sizes
  double ramp = 0;
  Provenance provenance;
};

/// Reductions in the switch (NVLS, Hopper and later): in one domain, and in each domain of a tree
/// over several. A rank sends its buffer once and receives the result once.
struct SwitchReduction {
  TierParameters domain;
  TierParameters tree;  // NVLS-tree: base and hop of the levels, efficiency of the network
};

/// Part of the SMs that a running NCCL kernel occupies: one per channel.
struct ComputeShare {
  double domain = 0;          // collectives inside a domain
  double network = 0;         // collectives that cross domains
  double point_to_point = 0;  // send/recv
  Provenance provenance;
};

/// How NCCL's algorithms behave on this GPU and interconnect where no curve was measured.
struct NetworkModel {
  TierParameters domain;   // ring inside one domain
  TierParameters network;  // ring over several domains; its steps inside cost domain.hop
  TierParameters tree;     // double binary tree over domains, chains inside
  std::optional<SwitchReduction> switch_reduction;
  TierParameters direct;          // all-to-all inside one domain
  TierParameters direct_network;  // all-to-all over several
  TierParameters pair;            // send/recv inside a domain
  TierParameters pair_network;    // send/recv between domains
  /// Exponent of the soft maximum of the times in both tiers. 4 on H100: rings over 8 NICs of 50
  /// GB/s reach 320 GB/s although NVLink alone gives 365 and the NICs 390.
  double hardness = 4;
  ComputeShare compute_share;
  /// Algorithms by protocol, from NCCL's own constants and fitted to a cluster's logs
  /// (collective_fit.h). Answers, not the tiers above, for the kinds that were fitted, inside a
  /// node or across nodes.
  std::optional<ProtocolRegimes> regimes{};
};

/// The last-level cache. A memory kernel whose whole traffic fits it goes at its bandwidth.
struct L2Cache {
  Bytes size;
  BytesPerSecond bandwidth;
  Provenance provenance;
};

/// How one kernel that is repeated varies: the deviation of its time's logarithm.
struct KernelSpread {
  double sigma = 0;
  Provenance provenance;
};

struct Profile {
  std::string name;
  std::string gpu;  // catalogue name of the GPU it was made on
  std::string date;
  std::string description;
  double level = 1;  // scales all compute: a site's clocks and power against the fits
  Provenance level_provenance;

  std::array<std::optional<FlopsPerSecond>, kDataTypes.size()> peak_dense;  // reference of eff_*
  int sms = 0;
  BytesPerSecond memory_bandwidth;
  std::optional<L2Cache> l2{};  // where curves need it

  std::array<std::optional<GemmCurve>, kDataTypes.size()> gemm;  // by DataType
  std::vector<AttentionCurve> attention;
  std::array<MemoryCurve, kMemoryKernels> memory;  // by MemoryKernel
  Seconds launch;                                  // host time per kernel of an eager framework
  Provenance launch_provenance;

  std::optional<KernelSpread> kernel_spread;

  NetworkModel network;
  std::vector<CollectiveCurve> curves;
};

/// A time and how well it is known.
struct TimeEstimate {
  Seconds time;
  Evidence evidence = Evidence::assumed;
};

/// C[m,n] = A[m,k] B[k,n], `batch` times in one kernel.
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  /// Bytes moved per element of C: written in 16 bits; 8 where it is added to in fp32.
  Bytes result_traffic = bytes(2);
};

struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t heads = 0;    // query heads on this rank
  std::int64_t queries = 0;  // tokens
  std::int64_t keys = 0;     // tokens
  std::int64_t qk_dim = 128;
  std::int64_t v_dim = 128;
  bool causal = true;
};

/// 2 b h q k (qk_dim + v_dim) forward, 2.5 times that backward (scores are computed again); half of
/// it under a causal mask.
Flops attention_flops(const AttentionShape& shape, AttentionPass pass);

/// Whether a GEMM of this type can be timed: the profile has its peak, and its curve or one to
/// borrow.
bool has_gemm(const Profile& profile, DataType type);

/// Of operands that are there in `type`. A type without a curve borrows one: fp16, tf32 and fp32
/// that of bf16, mxfp8 that of fp8_blockwise, all others that of fp8; the answer is then assumed.
/// Requires has_gemm.
TimeEstimate gemm_time(const Profile& profile, DataType type, const GemmShape& shape);
/// As tables of short runs time it: with clocks that have not sunk yet and, where `casts`, with the
/// casts of A to the type.
Seconds tabled_gemm_time(const Profile& profile, DataType type, const GemmShape& shape, bool casts);
/// By the curve of the nearest head dimension; 8-bit and 4-bit models compute attention in bf16. Of
/// a kernel without curves those of the newest are taken, and the answer is assumed.
TimeEstimate attention_time(const Profile& profile, DataType type, const AttentionShape& shape,
                            AttentionPass pass, AttentionKernel kernel = AttentionKernel::newest);
/// The copy of keys and values into a cache, of so many bytes read and written, that prefill tables
/// time with attention.
Seconds cache_copy_in_tables(const Profile& profile, std::int64_t head_dim, AttentionPass pass,
                             Bytes moved);
TimeEstimate memory_time(const Profile& profile, MemoryKernel kernel, Bytes moved);

/// A collective alone on the machine: latency, then `sent` bytes per rank at `rate`.
struct CollectiveTime {
  Seconds latency;
  Bytes sent;           // bus bytes: bus_factor * size
  BytesPerSecond rate;  // latency + sent / rate is the whole time
  Evidence evidence = Evidence::assumed;
  /// By which it is done; where a curve was measured, the one that the model would choose.
  NcclAlgorithm algorithm = NcclAlgorithm::ring;

  Seconds total() const { return sent.value > 0 ? latency + sent / rate : latency; }
};

/// `size` is the whole buffer as nccl-tests counts it. A measured curve of the same kind and shape
/// is interpolated monotonically in log-log (and says measured); else the NetworkModel answers: its
/// regimes where they were fitted, else its tiers. Where switches of the network reduce and nothing
/// of that was measured, NCCL's constants for them answer if that takes less time.
CollectiveTime collective_time(const Profile& profile, CollectiveKind kind, Bytes size,
                               GroupShape shape, const NetworkPath& path);

/// Part of the GPU's SMs that the running collective takes from compute.
double compute_share(const Profile& profile, CollectiveKind kind, GroupShape shape);

}  // namespace flopcast
