#include "calibration/kernel_fit.h"

#include <algorithm>
#include <map>
#include <set>

#include "calibration/form_fit.h"
#include "calibration/kernel_names.h"

namespace flopcast {
namespace {

// What training runs: smaller kernels are launches, or sit in the L2 cache.
constexpr std::int64_t kLeastGemmSide = 512;
constexpr Flops kLeastGemmWork = flops(2e10);
constexpr std::int64_t kLeastTokens = 1024;
constexpr std::int64_t kLeastHeads = 32;  // times batch
constexpr Bytes kLeastMoved = megabytes(150);
constexpr std::size_t kLeastSamples = 8;  // for a fit

std::size_t index_of(DataType type) { return static_cast<std::size_t>(type); }
std::size_t index_of(MemoryKernel kernel) { return static_cast<std::size_t>(kernel); }

bool fits(const GemmSample& sample) {
  const GemmShape& s = sample.shape;
  const Flops work =
      flops(2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k));
  return std::min({s.m, s.n, s.k}) >= kLeastGemmSide && work > kLeastGemmWork;
}

bool fits(const AttentionSample& sample) {
  const AttentionShape& s = sample.shape;
  return std::min(s.queries, s.keys) >= kLeastTokens && s.batch * s.heads >= kLeastHeads;
}

bool fits(const MemoryKernelSample& sample) { return sample.moved >= kLeastMoved; }
bool fits(const ExpertSample& sample) { return sample.shape.tokens >= kLeastTokens; }

std::string key(const GemmSample& s) { return "gemm " + std::string(to_text(s.type)); }
std::string key(const AttentionSample& s) {
  return "attention " + std::string(to_text(s.pass)) + " " + std::to_string(s.shape.qk_dim);
}
std::string key(const MemoryKernelSample& s) { return "memory " + std::string(to_text(s.kernel)); }
std::string key(const ExpertSample& s) { return "expert layer " + std::string(to_text(s.type)); }

template <class S>
using Groups = std::map<std::string, std::vector<S>>;

/// Samples in the sizes that are fitted, by what one curve serves.
template <class S>
Groups<S> grouped(const std::vector<S>& samples) {
  Groups<S> groups;
  for (const S& sample : samples) {
    if (fits(sample)) groups[key(sample)].push_back(sample);
  }
  return groups;
}

/// A form with its samples, without parameters.
template <class S>
FittedForm form_of(const std::string& op, const std::vector<S>& samples) {
  FittedForm form{.op = op, .names = {}, .starts = {}, .with = {}, .measured = {}, .held_back = {}};
  form.measured.reserve(samples.size());
  form.held_back.reserve(samples.size());
  for (const S& sample : samples) {
    form.measured.push_back(sample.time);
    form.held_back.push_back(held_back(sample));
  }
  return form;
}

bool enough(const FittedForm& form) {
  const auto judges = std::count(form.held_back.begin(), form.held_back.end(), true);
  return form.measured.size() >= kLeastSamples && judges > 0 &&
         judges < static_cast<std::ptrdiff_t>(form.measured.size());
}

Provenance fitted_provenance(const KernelSamples& samples, const KernelFitRow& row) {
  return {.evidence = Evidence::fitted,
          .source = samples.source + "; " + std::to_string(row.fitted.rows) +
                    " rows fitted, errors on " + std::to_string(row.held_back.rows) + " held back",
          .median_error = row.held_back.median,
          .p90_error = row.held_back.p90};
}

/// The profile's time of each sample, if it has a curve of that very kind.
TimeOfSample before(const Profile& profile, const std::vector<GemmSample>& samples) {
  const auto& curve = profile.gemm[index_of(samples.front().type)];
  if (!curve) return {};
  return [&profile, &samples](std::size_t i) {
    const GemmSample& sample = samples[i];
    return tabled_gemm_time(profile, sample.type, sample.shape, sample.quantise_traffic.value > 0);
  };
}
TimeOfSample before(const Profile& profile, const std::vector<AttentionSample>& samples) {
  return [&profile, &samples](std::size_t i) {
    const AttentionSample& sample = samples[i];
    return attention_time(profile, DataType::bf16, sample.shape, sample.pass).time +
           cache_copy_in_tables(profile, sample.shape.qk_dim, sample.pass, sample.cached);
  };
}
TimeOfSample before(const Profile& profile, const std::vector<MemoryKernelSample>& samples) {
  return [&profile, &samples](std::size_t i) {
    return memory_time(profile, samples[i].kernel, samples[i].moved).time;
  };
}

template <class S>
void judge(const std::vector<S>& samples, const Profile& profile, std::vector<KernelFitRow>& rows) {
  for (const auto& [op, group] : grouped(samples)) {
    const TimeOfSample time = before(profile, group);
    const FittedForm form = form_of(op, group);
    if (time && enough(form)) {
      rows.push_back({.op = op,
                      .fitted = {},
                      .held_back = {},
                      .before = errors_of(form, time, true),
                      .parameters = {},
                      .points = {}});
    }
  }
}

/// Which of its optional parts a GEMM's form has: casts by the samples, the others by the base.
struct GemmParts {
  Bytes quantise_traffic;
  bool clock = false;
  bool rereads_a = false;

  bool quantised() const { return quantise_traffic.value > 0; }
};

GemmCurve gemm_curve(std::span<const double> p, const GemmParts& parts) {
  GemmCurve curve{.eff_inf = p[0],
                  .eff_bw = p[1],
                  .t0 = microseconds(p[2]),
                  .k0 = p[3],
                  .c_tile = p[4],
                  .q_wave = p[5],
                  .p = p[6],
                  .eff_quantise_bw = {},
                  .quantise_traffic = parts.quantise_traffic,
                  .provenance = {},
                  .clock = {},
                  .rereads_a = parts.rereads_a};
  if (parts.quantised()) curve.eff_quantise_bw = p[7];
  if (parts.clock) {
    const std::size_t at = parts.quantised() ? 8 : 7;
    curve.clock = {.sag = p[at], .settle = microseconds(1e3 * p[at + 1])};
  }
  return curve;
}

std::vector<std::string> gemm_names(const GemmParts& parts) {
  std::vector<std::string> names{"eff_inf", "eff_bw", "t0 (us)", "k0", "c_tile", "q_wave", "p"};
  if (parts.quantised()) names.emplace_back("quantise efficiency");
  if (parts.clock) names.insert(names.end(), {"clock sag", "settle (ms)"});
  return names;
}

/// Soft and hard waves, blunt and sharp maxima: the objective has several valleys.
std::vector<std::vector<BoxedParameter>> gemm_starts(const GemmParts& parts) {
  std::vector<std::vector<BoxedParameter>> starts;
  for (const double q : {0.1, 0.8}) {
    for (const double p : {2.5, 8.0}) {
      std::vector<BoxedParameter>& start = starts.emplace_back();
      start = {{0.75, 0.05, 1.3}, {0.6, 0.1, 1.6}, {2, 0, 100}, {100, 0, 2000},
               {5, 0, 400},       {q, 0, 1},       {p, 1.2, 12}};
      if (parts.quantised()) start.push_back({0.6, 0.05, 1.6});
      if (parts.clock) start.insert(start.end(), {{0.3, 0, 2}, {2, 0.05, 100}});
    }
  }
  return starts;
}

/// Fits one machine, which its forms change as they go.
class KernelFitter {
 public:
  KernelFitter(const KernelSamples& samples, const Profile& machine,
               const KernelFitOptions& options)
      : samples_(samples), options_(options), machine_(machine), original_(machine) {
    machine_.level = original_.level = 1;
  }

  KernelFits run() {
    if (options_.gemm) fit_all(samples_.gemm);
    fit_all(samples_.attention);
    fit_all(samples_.memory);
    fit_all(samples_.experts);
    out_.jitter = fit_jitter(samples_);
    out_.shares = fit_shares(samples_);
    return std::move(out_);
  }

 private:
  template <class S>
  void fit_all(const std::vector<S>& samples) {
    std::set<std::string> groups;
    for (const S& sample : samples) groups.insert(key(sample));
    const Groups<S> fitted = grouped(samples);
    for (const std::string& op : groups) {
      const auto found = fitted.find(op);
      if (found == fitted.end() || !enough(form_of(op, found->second))) {
        const std::size_t count = found == fitted.end() ? 0 : found->second.size();
        out_.left_out.push_back(op + ": " + std::to_string(count) +
                                " samples of sizes that are fitted, too few");
      } else {
        fit(op, found->second);
      }
    }
  }

  KernelFitRow& add(const FittedForm& form, const TimeOfSample& before) {
    KernelFitRow row = fit_form(form, options_.bootstraps);
    if (before) row.before = errors_of(form, before, true);
    return out_.rows.emplace_back(std::move(row));
  }

  void fit(const std::string& op, const std::vector<GemmSample>& group) {
    const DataType type = group.front().type;
    if (!machine_.peak_dense[index_of(type)]) {
      out_.left_out.push_back(op + ": the base profile has no peak for it");
      return;
    }
    const auto& old = original_.gemm[index_of(type)];
    const GemmParts parts{.quantise_traffic = group.front().quantise_traffic,
                          .clock = old && old->clock,
                          .rereads_a = old && old->rereads_a};
    FittedForm form = form_of(op, group);
    form.names = gemm_names(parts);
    form.starts = gemm_starts(parts);
    form.with = [&](std::span<const double> parameters) -> TimeOfSample {
      machine_.gemm[index_of(type)] = gemm_curve(parameters, parts);
      return before(machine_, group);
    };
    const KernelFitRow& row = add(form, before(original_, group));
    GemmCurve curve = gemm_curve(values(row), parts);
    if (!parts.quantised() && old) {  // no casts in these times: what was known of them stays
      curve.eff_quantise_bw = old->eff_quantise_bw;
      curve.quantise_traffic = old->quantise_traffic;
    }
    curve.provenance = fitted_provenance(samples_, row);
    out_.gemm[index_of(type)] = curve;
  }

  void fit(const std::string& op, const std::vector<AttentionSample>& group) {
    const AttentionSample& first = group.front();
    const auto curve_of = [&first](std::span<const double> p) {
      AttentionCurve curve{.head_dim = static_cast<int>(first.shape.qk_dim),
                           .pass = first.pass,
                           .eff_inf = p[0],
                           .s0 = p[1],
                           .t0 = microseconds(p[2]),
                           .provenance = {}};
      if (p.size() > 3) curve.eff_cache_bw = p[3];
      return curve;
    };
    FittedForm form = form_of(op, group);
    form.names = {"eff_inf", "s0 (tokens)", "t0 (us)"};
    form.starts = {{{0.6, 0.02, 1.3}, {300, 0, 5000}, {10, 0, 200}}};
    if (first.cached.value > 0) {
      form.names.emplace_back("cache efficiency");
      form.starts.front().push_back({0.8, 0.05, 1.6});
    }
    form.with = [&](std::span<const double> parameters) -> TimeOfSample {
      machine_.attention = {curve_of(parameters)};
      return before(machine_, group);
    };
    const KernelFitRow& row = add(form, before(original_, group));
    out_.attention.push_back(curve_of(values(row)));
    out_.attention.back().provenance = fitted_provenance(samples_, row);
  }

  void fit(const std::string& op, const std::vector<MemoryKernelSample>& group) {
    const MemoryKernel kernel = group.front().kernel;
    FittedForm form = form_of(op, group);
    form.names = {"efficiency", "t0 (us)"};
    form.starts = {{{0.8, 0.01, 1.3}, {3, 0, 50}}};
    form.with = [&](std::span<const double> p) -> TimeOfSample {
      machine_.memory[index_of(kernel)] = {
          .efficiency = p[0], .t0 = microseconds(p[1]), .provenance = {}};
      return before(machine_, group);
    };
    const KernelFitRow& row = add(form, before(original_, group));
    const std::vector<double> p = values(row);
    out_.memory[index_of(kernel)] = {.efficiency = p[0],
                                     .t0 = microseconds(p[1]),
                                     .provenance = fitted_provenance(samples_, row)};
  }

  void fit(const std::string& op, const std::vector<ExpertSample>& group) {
    const DataType type = group.front().type;
    const auto& peak = machine_.peak_dense[index_of(type)];
    if (!peak) {
      out_.left_out.push_back(op + ": the base profile has no peak for it");
      return;
    }
    const ExpertLayerMachine machine{
        .type = type, .peak = *peak, .bandwidth = machine_.memory_bandwidth};
    FittedForm form = form_of(op, group);
    form.names = {"eff_inf", "eff_bw", "eff_gather", "eff_activations", "t0 (us)", "row_tile"};
    for (const double tile :
         {1, 8, 16, 32, 64, 128, 256}) {  // a step function: tried, not descended
      form.starts.push_back({{0.6, 0.02, 1.2},
                             {0.7, 0.05, 1.2},
                             {0.3, 0.02, 1.5},
                             {0.3, 0.02, 5},
                             {40, 0, 500},
                             {tile, tile, tile}});
    }
    form.with = [&group, machine](std::span<const double> p) -> TimeOfSample {
      const ExpertLayerCurve curve{.row_tile = p[5],
                                   .eff_inf = p[0],
                                   .eff_bw = p[1],
                                   .eff_gather = p[2],
                                   .eff_activations = p[3],
                                   .t0 = microseconds(p[4])};
      return [&group, machine, curve](std::size_t i) {
        return expert_layer_time(curve, machine, group[i].shape);
      };
    };
    add(form, {});
  }

  static std::vector<double> values(const KernelFitRow& row) {
    std::vector<double> out;
    out.reserve(row.parameters.size());
    for (const FittedParameter& parameter : row.parameters) out.push_back(parameter.value);
    return out;
  }

  const KernelSamples& samples_;
  KernelFitOptions options_;
  Profile machine_;
  Profile original_;
  KernelFits out_;
};

}  // namespace

KernelFits fit_kernels(const KernelSamples& samples, const Profile& machine,
                       const KernelFitOptions& options) {
  return KernelFitter(samples, machine, options).run();
}

std::vector<KernelFitRow> judge_kernels(const KernelSamples& samples, const Profile& profile) {
  Profile short_runs = profile;
  short_runs.level = 1;
  std::vector<KernelFitRow> rows;
  judge(samples.gemm, short_runs, rows);
  judge(samples.attention, short_runs, rows);
  judge(samples.memory, short_runs, rows);
  return rows;
}

}  // namespace flopcast
