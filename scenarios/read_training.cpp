#include <fmt/format.h>

#include "calibration/kernel_names.h"
#include "models/operand_casts.h"
#include "scenarios/fields.h"
#include "scenarios/nearest.h"
#include "scenarios/scenario_parts.h"

namespace flopcast {
namespace {

constexpr std::int64_t kLongestSequence = 1 << 26;
constexpr std::int64_t kLargestMicroBatch = 1 << 16;
constexpr std::int64_t kLargestBatch = 1 << 26;
constexpr int kMostLossChunks = 4096;
constexpr int kMostGathersAhead = 1000;
constexpr int kMostLossMetrics = 100;
constexpr std::int64_t kLargestDivisor = 1 << 20;

constexpr Choice<RecomputeKind> kRecomputeKinds[] = {
    {"none", RecomputeKind::none},
    {"selective", RecomputeKind::selective},
    {"full", RecomputeKind::full},
    {"every_other_matmul", RecomputeKind::every_other_matmul}};
constexpr Choice<RecomputeModule> kRecomputeModules[] = {
    {"core_attn", RecomputeModule::core_attn},
    {"layernorm", RecomputeModule::layernorm},
    {"mla_up_proj", RecomputeModule::mla_up_proj},
    {"mlp", RecomputeModule::mlp},
    {"moe", RecomputeModule::moe},
    {"moe_act", RecomputeModule::moe_act},
    {"shared_experts", RecomputeModule::shared_experts}};
/// A recipe of blocks is a data type of its own; names are Megatron's (--fp8-recipe).
struct Fp8Recipe {
  DataType precision = DataType::fp8;
  bool current_scaling = false;
};
constexpr Choice<Fp8Recipe> kFp8Recipes[] = {{"delayed", {DataType::fp8, false}},
                                             {"tensorwise", {DataType::fp8, true}},
                                             {"blockwise", {DataType::fp8_blockwise, false}},
                                             {"mxfp8", {DataType::mxfp8, false}}};
constexpr Choice<ScheduleKind> kSchedules[] = {
    {"gpipe", ScheduleKind::gpipe},
    {"1f1b", ScheduleKind::one_f_one_b},
    {"interleaved", ScheduleKind::interleaved},
    {"looped-bfs", ScheduleKind::looped_bfs},
    {"interleaved-zero-bubble", ScheduleKind::interleaved_zero_bubble},
    {"zb-h1", ScheduleKind::zb_h1},
    {"zb-h2", ScheduleKind::zb_h2},
    {"zb-v", ScheduleKind::zb_v},
    {"zb-v-torch", ScheduleKind::zb_v_torch},
    {"v-half", ScheduleKind::v_half},
    {"v-min", ScheduleKind::v_min},
    {"1f1b-v", ScheduleKind::one_f_one_b_v},
    {"dualpipe", ScheduleKind::dualpipe},
    {"dualpipe-v", ScheduleKind::dualpipe_v}};
// Narrower buffers are not summed by any framework here.
constexpr std::array kGradientTypes{DataType::fp32, DataType::fp16, DataType::bf16};
// Between stages no framework sends fewer than 16 bits.
constexpr std::array kPipelineTypes{DataType::fp32, DataType::fp16, DataType::bf16};
constexpr std::array kContextTypes{DataType::fp32, DataType::fp16, DataType::bf16, DataType::fp8};
constexpr std::array kMomentTypes{DataType::fp32, DataType::fp16, DataType::bf16, DataType::fp8};
constexpr std::array kParameterTypes{DataType::fp32, DataType::fp16, DataType::bf16, DataType::fp8,
                                     DataType::mxfp8};

Recompute read_recompute(const Node& node) {
  Recompute recompute;
  recompute.kind = (node.is_text() ? node : node.at("kind")).one_of(kRecomputeKinds);
  if (node.is_text()) return recompute;
  if (const auto layers = node.find("layers")) {
    if (recompute.kind != RecomputeKind::full) {
      layers->fail("only \"full\" recomputes a number of layers");
    }
    recompute.layers = layers->integer(1, kMostLayers);
  }
  if (const auto modules = node.find("modules")) {
    if (recompute.kind != RecomputeKind::selective) {
      modules->fail("only \"selective\" recomputes modules");
    }
    recompute.modules.fill(false);
    for (const Node& name : modules->items()) {
      bool& selected = recompute.modules[static_cast<std::size_t>(name.one_of(kRecomputeModules))];
      if (selected) name.fail("the module is named twice");
      selected = true;
    }
  }
  return recompute;
}

/// What Megatron stores and reduces when nothing else is asked for: parameters in the training
/// type, gradients in fp32 next to bf16 and in fp16 next to fp16. Source: Megatron-LM d98e8a64,
/// megatron/training/arguments.py (params_dtype, accumulate_allreduce_grads_in_fp32).
void set_stored_types(Training& training) {
  switch (training.precision) {
    case DataType::fp32:
    case DataType::tf32:
      training.parameter_dtype = DataType::fp32;
      training.gradient_dtype = DataType::fp32;
      return;
    case DataType::fp16:
      training.parameter_dtype = DataType::fp16;
      training.gradient_dtype = DataType::fp16;
      return;
    case DataType::bf16:
    case DataType::fp8:
    case DataType::fp8_blockwise:
    case DataType::mxfp8:
    case DataType::nvfp4:
      training.parameter_dtype = DataType::bf16;
      training.gradient_dtype = DataType::fp32;
      return;
  }
}

void read_fp8_recipe(const Node& node, Training& training) {
  if (training.precision != DataType::fp8) node.fail("only precision fp8 has recipes");
  const Fp8Recipe recipe = node.one_of(kFp8Recipes);
  training.precision = recipe.precision;
  training.current_scaling = recipe.current_scaling;
}

/// Of what ranks send each other inside a model.
void read_sent_types(const Node& node, const Layout& layout, Training& training) {
  if (const auto key = node.find("tensor_dtype")) {
    const DataType type = key->one_of(kDataTypes);
    const DataType plain = unquantised_type(training);
    if (type != training.precision && type != plain) {
      const bool quantised = plain != training.precision;
      key->fail(quantised ? fmt::format("products read {}; gathered is that or {}",
                                        to_text(training.precision), to_text(plain))
                          : fmt::format("products read {}, so that is gathered", to_text(plain)));
    }
    if (type != plain && !layout.sequence_parallel) {
      key->fail("without sequence_parallel no operands are gathered");
    }
    training.tensor_dtype = type;
  }
  if (const auto key = node.find("context_dtype"))
    training.context_dtype = key->one_of(kContextTypes);
  if (const auto key = node.find("pipeline_dtype")) {
    training.pipeline_dtype = key->one_of(kPipelineTypes);
  }
}

bool read_param_gather(const Node& node, const Training& training) {
  const bool gathers = node.boolean();
  const bool fp8 = training.precision == DataType::fp8 || training.precision == DataType::mxfp8 ||
                   training.precision == DataType::fp8_blockwise;
  if (gathers && !fp8) {
    node.fail(fmt::format("products read {}: only those in fp8 have weights in fp8",
                          to_text(training.precision)));
  }
  return gathers;
}

/// Parts of the sequence are split over ranks as the whole is.
int read_loss_chunks(const Node& node, const Layout& layout, std::int64_t sequence) {
  const int chunks = node.small_integer(1, kMostLossChunks);
  const std::int64_t split =
      std::int64_t{layout.grid.cp} * (layout.sequence_parallel ? layout.grid.tp : 1);
  const auto fits = [&](int count) { return count >= 1 && sequence % (count * split) == 0; };
  if (fits(chunks) || sequence % split != 0) return chunks;
  int away = 1;
  while (!fits(chunks - away) && !fits(chunks + away)) ++away;
  node.fail(
      fmt::format("a sequence of {} in {} parts, each of which {} ranks share, does not "
                  "divide; nearest: {}",
                  sequence, chunks, split, fits(chunks - away) ? chunks - away : chunks + away));
}

/// Transformer Engine casts attention's operands with those of the layers around it, or neither.
std::optional<DataType> read_attention_type(const Node& node, const Training& training) {
  const DataType plain = unquantised_type(training);
  const DataType type = node.one_of(kDataTypes);
  if (type == plain) return std::nullopt;
  if (type != DataType::fp8 || plain == training.precision) {
    node.fail(fmt::format("with precision {} attention is in {}", to_text(training.precision),
                          plain == training.precision ? to_text(plain) : "fp8 or bf16"));
  }
  return type;
}

Framework read_preset(const Node& node) {
  const std::string name = node.text();
  if (const auto preset = framework_preset(name)) return *preset;
  const auto names = framework_names();
  node.fail(fmt::format("no framework {}; known: {}{}", node.shown(), fmt::join(names, ", "),
                        did_you_mean(name, names)));
}

}  // namespace

Training read_training(const Node& node, Layout& layout) {
  Training training;
  const Fields fields(node, false);
  fields.needed_count("sequence", training.batch.sequence, kLongestSequence);
  fields.count("micro_batch", training.batch.micro_batch, 1, kLargestMicroBatch);
  fields.needed_count("global_batch", training.batch.global_batch, kLargestBatch);
  fields.kind("precision", training.precision, kDataTypes);
  set_stored_types(training);
  if (const auto recipe = node.find("fp8_recipe")) read_fp8_recipe(*recipe, training);
  fields.kind("parameter_dtype", training.parameter_dtype, kParameterTypes);
  fields.kind("gradient_dtype", training.gradient_dtype, kGradientTypes);
  fields.kind("moment_dtype", training.moment_dtype, kMomentTypes);
  if (const auto type = node.find("dispatch_dtype")) {
    training.dispatch_dtype = type->one_of(kParameterTypes);
  }
  if (const auto key = node.find("fp8_param_gather")) {
    training.fp8_param_gather = read_param_gather(*key, training);
  }
  read_sent_types(node, layout, training);
  if (const auto type = node.find("kept_expert_dtype")) {
    training.kept_expert_dtype = type->one_of(kParameterTypes);
  }
  if (const auto type = node.find("kept_mlp_dtype")) {
    training.kept_mlp_dtype = type->one_of(kParameterTypes);
  }
  if (const auto type = node.find("attention_dtype")) {
    training.attention_dtype = read_attention_type(*type, training);
  }
  if (const auto recompute = node.find("recompute")) {
    training.recompute = read_recompute(*recompute);
  }
  fields.flag("overlap_grad_reduce", training.overlap_grad_reduce);
  fields.flag("overlap_param_gather", training.overlap_param_gather);
  fields.flag("tensor_overlap", training.tensor_overlap);
  fields.flag("overlap_p2p", training.overlap_p2p);
  if (const auto bucket = node.find("bucket")) {
    training.bucket = bucket->positive_quantity<Bytes>();
  }
  if (const auto factor = node.find("capacity_factor")) {
    training.capacity_factor = factor->number(0.01, 1000);
  }
  fields.flag("pad_to_capacity", training.pad_to_capacity);
  if (const auto chunks = node.find("loss_chunks")) {
    training.loss_chunks = read_loss_chunks(*chunks, layout, training.batch.sequence);
  }
  read_fine_tuning(node, layout, training);
  layout.schedule = layout.vpp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  fields.kind("schedule", layout.schedule, kSchedules);
  if (const auto overlap = node.find("overlap_expert_exchange")) {
    layout.overlap_expert_exchange = overlap->boolean();
    const bool in_turns = layout.schedule == ScheduleKind::interleaved ||
                          layout.schedule == ScheduleKind::one_f_one_b;
    if (layout.overlap_expert_exchange && !in_turns) {
      overlap->fail("only 1f1b and interleaved run a forward beside a backward on demand");
    }
  }
  return training;
}

Framework read_framework(const std::optional<Node>& node) {
  if (!node) return *framework_preset("megatron");
  if (node->is_text()) return read_preset(*node);
  Framework framework = read_preset(node->at("preset"));
  const Fields fields(*node, true);
  fields.flag("regather_in_backward", framework.regather_in_backward);
  fields.flag("overlap_tensor_regather", framework.overlap_tensor_regather);
  fields.kind("quantised_gathers", framework.quantised_gathers, kQuantisedGathers);
  fields.flag("keeps_cast_weights", framework.keeps_cast_weights);
  fields.flag("fp8_param_gather", framework.fp8_param_gather);
  fields.flag("ddp_buckets", framework.ddp_buckets);
  fields.flag("align_grad_reduce", framework.align_grad_reduce);
  fields.flag("fused_attention", framework.fused_attention);
  fields.kind("attention_kernel", framework.attention_kernel, kAttentionKernelKinds);
  fields.flag("eager_kernels", framework.eager_kernels);
  fields.flag("separate_projections", framework.separate_projections);
  fields.kind("cross_entropy", framework.cross_entropy, kCrossEntropies);
  fields.count("loss_metrics", framework.loss_metrics, 0, kMostLossMetrics);
  fields.flag("recompute_stops_early", framework.recompute_stops_early);
  fields.flag("fused_wgrad_accumulation", framework.fused_wgrad_accumulation);
  fields.flag("blocking_p2p", framework.blocking_p2p);
  fields.flag("zero_all_reduces", framework.zero_all_reduces);
  fields.flag("zero_by_tensor", framework.zero_by_tensor);
  fields.flag("reduces_each_micro_batch", framework.reduces_each_micro_batch);
  fields.flag("defers_reductions_in_pipeline", framework.defers_reductions_in_pipeline);
  fields.flag("shards_parameters", framework.shards_parameters);
  fields.flag("shards_ends_apart", framework.shards_ends_apart);
  fields.count("gathers_ahead", framework.gathers_ahead, 0, kMostGathersAhead);
  fields.flag("copies_gathered", framework.copies_gathered);
  fields.flag("keeps_fp32_parameters", framework.keeps_fp32_parameters);
  fields.flag("keeps_unreduced_gathered", framework.keeps_unreduced_gathered);
  fields.flag("replicas_reduce_each_micro_batch", framework.replicas_reduce_each_micro_batch);
  fields.flag("flat_gradients", framework.flat_gradients);
  fields.flag("fused_optimizer", framework.fused_optimizer);
  fields.flag("fresh_gradients", framework.fresh_gradients);
  fields.quantity("host_per_operator", framework.host_per_operator);
  fields.quantity("host_per_expert_product", framework.host_per_expert_product);
  fields.flag("waits_for_token_counts", framework.waits_for_token_counts);
  fields.quantity("step_overhead", framework.step_overhead);
  fields.count("vocab_divisor", framework.vocab_divisor, 1, kLargestDivisor);
  return framework;
}

}  // namespace flopcast
