#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "golden_models.h"
#include "simple_machine.h"

// Memory peaks that the engine finds by replaying a step, against published rules, counted modules
// and Megatron's estimator: tests/data/memory.json and stage_parameters.json, each section with its
// source. Where the ledger holds more than a rule knows of, the difference is added by name.

using namespace flopcast;
using namespace flopcast::test;
using nlohmann::json;

namespace {

json fixture(const char* file) {
  return json::parse(std::ifstream(std::string(FLOPCAST_TEST_DATA) + "/" + file));
}

double model_state(const Step& step, int rank) {
  return static_cast<double>(step.peak(rank, MemoryPool::parameters) +
                             step.peak(rank, MemoryPool::gradients) +
                             step.peak(rank, MemoryPool::optimizer));
}

double activations(const Step& step, int rank) {
  return static_cast<double>(step.peak(rank, MemoryPool::activations));
}

int vpp_of(const json& row) {
  const json& vpp = row.at("vpp");
  return vpp.is_null() ? 1 : vpp.get<int>();
}

/// The vocabulary of the row is padded already.
void set_batch(Job& job, std::int64_t sequence, std::int64_t micro_batch, std::int64_t count) {
  job.training.framework.vocab_divisor = 1;
  job.training.batch = {.sequence = sequence,
                        .micro_batch = micro_batch,
                        .global_batch = count * micro_batch * job.layout.grid.dp};
}

void set_pipeline(Job& job, int pp, int vpp) {
  job.layout.grid.pp = pp;
  job.layout.vpp = vpp;
  job.layout.schedule = vpp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
}

/// GPT as Megatron trained it in 2022: dropout, attention scores written out and recomputed,
/// sequence parallel.
void train_as_in_2022(Job& job) {
  job.model.gated_mlp = false;
  job.model.dropout = true;
  job.model.norm = NormKind::layer_norm;
  job.training.framework = *framework_preset("megatron-2021");
  job.training.recompute.kind = RecomputeKind::selective;
  job.layout.sequence_parallel = true;
}

/// Sizes of a job that formulas of activation memory are written in.
struct Sizes {
  double s, b, h, a, g, f, v, layers, pp, vpp, t, m;

  explicit Sizes(const Job& job)
      : s(static_cast<double>(job.training.batch.sequence)),
        b(static_cast<double>(job.training.batch.micro_batch)),
        h(static_cast<double>(job.model.hidden)),
        a(static_cast<double>(job.model.heads)),
        g(static_cast<double>(job.model.kv_heads)),
        f(static_cast<double>(job.model.ffn)),
        v(static_cast<double>(job.model.vocab)),
        layers(static_cast<double>(job.model.layers)),
        pp(job.layout.grid.pp),
        vpp(job.layout.vpp),
        t(job.layout.grid.tp),
        m(static_cast<double>(micro_batches(job.layout, job.training.batch))) {}

  /// Growth of the first stage by interleaving: 2205.05198, section 4.2.3.
  double interleaving() const { return vpp > 1 ? 1 + (pp - 1) / (pp * vpp) : 1; }
  /// Layers times micro-batches alive on the first stage at most.
  double layers_alive() const {
    return layers * interleaving() * (vpp > 1 ? 1 : std::min(1.0, m / pp));
  }
  /// Micro-batches alive in the first chunk then: under 1F1B one per stage; interleaved two groups
  /// of as many, the second of which is complete when the second backward begins.
  double first_chunk_alive() const { return vpp > 1 ? 2 * pp : std::min(m, pp); }
};

/// What the ledger holds beside what the formulas for sequence parallel and selective recompute
/// count.
double norm_statistics(const Sizes& z) { return z.layers_alive() * 8 * z.s * z.b / z.t; }
double embedding_mask(const Sizes& z) { return z.first_chunk_alive() * z.s * z.b * z.h / z.t; }
/// Scores of the one layer whose attention is being recomputed: softmax, dropout and its mask.
double recomputed_scores(const Sizes& z) { return 5 * z.a * z.s * z.s * z.b / z.t; }
/// Log-sum-exp of fused attention instead.
double recomputed_row_sums(const Sizes& z) { return 4 * z.a * z.s * z.b / z.t; }
/// Where a single stage holds the head: input and output of the final norm and the logits in 16 and
/// in 32 bit. The estimator knows all but the 16-bit logits.
double head(const Sizes& z) { return (4 * z.h + 6 * z.v) * z.s * z.b / z.t; }
double known_head(const Sizes& z) { return (4 * z.h + 4 * z.v) * z.s * z.b / z.t; }

}  // namespace

TEST_CASE("model state follows the ZeRO paper") {
  Job job;
  job.model = golden_model("llama3-8b");
  job.training.gradient_dtype = DataType::bf16;
  const double parameters = 8030261248;  // one rank holds all
  for (const json cases = fixture("memory.json").at("zero_paper").at("cases");
       const json& row : cases) {
    CAPTURE(row.dump());
    const auto state = [&](int zero) {
      job.layout.grid.dp = row.at("ranks");
      job.layout.zero = zero;
      set_batch(job, 2048, 1, 1);
      return model_state(run_step(job), 0) / parameters;
    };
    const auto expected = [&row](const char* key) {
      return row.at(key).get<double>() / row.at("parameters").get<double>();
    };
    CHECK(state(0) == Approx(expected("baseline")).epsilon(1e-9));
    CHECK(state(1) == Approx(expected("stage1")).epsilon(1e-9));
    CHECK(state(2) == Approx(expected("stage2")).epsilon(1e-9));
    job.training.framework = *framework_preset("deepspeed");
    CHECK(state(3) == Approx(expected("stage3")).epsilon(1e-9));
    job.training.framework = *framework_preset("megatron");
  }
}

TEST_CASE("model state of each pipeline stage is that of Megatron's modules") {
  for (const json cases = fixture("stage_parameters.json").at("cases"); const json& row : cases) {
    Job job;
    job.model = golden_model(row.at("model"));
    if (job.model.moe) continue;
    CAPTURE(row.at("id").get<std::string>());
    job.model.vocab = row.at("padded_vocab");
    job.layout.grid = {.tp = row.at("tp"), .cp = row.at("cp"), .dp = row.at("dp")};
    set_pipeline(job, row.at("pp"), vpp_of(row));
    set_batch(job, 2048, 1, job.layout.grid.pp);
    for (const int zero : {0, 1}) {
      job.layout.zero = zero;
      const Step step = run_step(job);
      const char* key = zero == 0 ? "bytes_plain_bf16_adam" : "bytes_distributed_optimizer";
      for (int rank = 0; rank < job.layout.grid.pp; ++rank) {
        const json& stage = row.at("stages").at(static_cast<std::size_t>(rank));
        CHECK(model_state(step, rank) == Approx(stage.at(key).get<double>()).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("activations of the first stage follow Korthikanti et al.") {
  for (const json cases = fixture("memory.json").at("activation_formulas").at("cases");
       const json& row : cases) {
    CAPTURE(row.at("id").get<std::string>());
    Job job;
    train_as_in_2022(job);
    job.model.layers = row.at("layers");
    job.model.hidden = row.at("hidden");
    job.model.heads = job.model.kv_heads = row.at("heads");
    job.model.head_dim = job.model.hidden / job.model.heads;
    job.model.ffn = 4 * job.model.hidden;
    job.model.vocab = 51200;
    job.layout.grid.tp = row.at("tp");
    set_pipeline(job, row.at("pp"), row.at("vpp"));
    set_batch(job, row.at("sequence"), row.at("micro_batch"), 2 * job.layout.grid.pp);
    const Sizes z(job);
    const double named = norm_statistics(z) + embedding_mask(z) + recomputed_scores(z) +
                         (job.layout.grid.pp == 1 ? head(z) : 0);
    CHECK(activations(run_step(job), 0) - named ==
          Approx(row.at("first_stage_tp_sp_selective").get<double>()).epsilon(1e-9));
  }
}

TEST_CASE("interleaving raises the first stage's activations by 1 + (p-1)/(pv)") {
  for (const json cases = fixture("memory.json").at("interleaving_factor").at("cases");
       const json& row : cases) {
    CAPTURE(row.dump());
    const int pp = row.at("pp");
    const int vpp = row.at("vpp");
    Job job;
    job.model = golden_model("llama3-8b");
    job.model.layers = static_cast<std::int64_t>(pp) * vpp;
    const auto peak = [&job, pp](int chunks) {
      set_pipeline(job, pp, chunks);
      set_batch(job, 1024, 1, 2 * pp);
      return activations(run_step(job), 0);
    };
    CHECK(peak(vpp) / peak(1) == Approx(row.at("factor").get<double>()).epsilon(1e-12));
  }
}

// The estimator counts no biases, no positions and no norms of heads, divides norms by tp, and
// gives every stage its part of the final norm. It counts a gated MLP as a plain one, wide keys,
// and the dropout of the embedding whether there is one or not.
TEST_CASE("the ledger is Megatron's estimate and what it leaves out") {
  for (const json cases = fixture("memory.json").at("megatron_estimator").at("cases");
       const json& row : cases) {
    const json& in = row.at("input");
    CAPTURE(row.at("id").get<std::string>());
    Job job;
    Transformer& model = job.model;
    model = transformer_of({in.at("layers"), in.at("hidden"), in.at("heads"), in.at("kv_heads"),
                            in.at("ffn"), in.at("padded_vocab")});
    model.head_dim = in.at("head_dim");
    model.tied_embeddings = !in.at("untied_embeddings").get<bool>();
    job.training.recompute.kind = RecomputeKind::selective;
    job.layout.sequence_parallel = true;
    const bool gpt = !in.at("gated_mlp").get<bool>();
    if (gpt) {
      train_as_in_2022(job);
      model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
      model.positions = PositionKind::learned;
      model.max_positions = in.at("sequence");
    }
    model.qk_norm = row.at("id").get<std::string>().starts_with("qwen3");
    const bool sharded = in.at("distributed_optimizer");
    job.layout.grid = {.tp = in.at("tp"), .dp = in.at("dp")};
    job.layout.zero = sharded ? 1 : 0;
    set_pipeline(job, in.at("pp"), vpp_of(in));
    if (model.layers % job.layout.grid.pp != 0) continue;  // fractions of layers
    // More micro-batches than fill the pipeline raise no peak.
    const std::int64_t full = 2 * job.layout.grid.pp;
    const auto count = std::min(in.at("micro_batches").get<std::int64_t>(), full);
    set_batch(job, in.at("sequence"), in.at("micro_batch"), count);
    const Sizes z(job);
    const Step step = run_step(job);

    const double stage_layers = z.layers / z.pp;
    const double norm = gpt ? 2 * z.h : z.h;
    const double final_norm = (z.pp == 1 ? norm : 0) - norm / z.pp;
    const double head_norms = model.qk_norm ? 2 * 128 * stage_layers : 0;
    const double biases = gpt ? (7 * z.h / z.t + 2 * z.h) * stage_layers : 0;
    const double positions = gpt ? z.s * z.h : 0;
    const double each = sharded ? 6 + 12.0 / job.layout.grid.dp : 18;
    CHECK(model_state(step, 0) - each * (final_norm + head_norms + biases + positions) ==
          Approx(row.at("expected").at("weight_and_optimizer_bytes").get<double>()).epsilon(1e-9));

    const double token_ids = 8 * z.s * z.b;
    const double mask = z.s * z.b * z.h;
    const double supposed = (token_ids + mask) * z.interleaving() * std::min(z.m, z.pp) / z.t;
    const double plain_mlp = ((18 - 12 - 4 * z.g / z.a) * z.h - 2 * z.f) * z.s * z.b / z.t;
    double ledger = activations(step, 0) - norm_statistics(z) + supposed;
    if (z.pp == 1) ledger += known_head(z) - head(z);
    ledger -= gpt ? recomputed_scores(z) + embedding_mask(z) : recomputed_row_sums(z);
    if (!gpt) ledger += z.layers_alive() * plain_mlp;
    CHECK(ledger ==
          Approx(row.at("expected").at("activation_bytes_by_sequence_parallel_rule").get<double>())
              .epsilon(1e-9));
  }
}
