#include "scenarios/read_kernel_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "scenarios/sample_rows.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

// Names of formats as libraries and benchmarks write them.
constexpr std::array<std::pair<std::string_view, DataType>, 17> kTypes{{
    {"fp32", DataType::fp32},
    {"float32", DataType::fp32},
    {"tf32", DataType::tf32},
    {"fp16", DataType::fp16},
    {"float16", DataType::fp16},
    {"half", DataType::fp16},
    {"bf16", DataType::bf16},
    {"bfloat16", DataType::bf16},
    {"fp8", DataType::fp8},
    {"fp8_block", DataType::fp8_blockwise},
    {"fp8_blockwise", DataType::fp8_blockwise},
    {"float8_e4m3fn", DataType::fp8},
    {"float8_e4m3fnuz", DataType::fp8},
    {"a8w8_blockscale", DataType::fp8},
    {"a8w8_blockscale_bpreshuffle", DataType::fp8},
    {"mxfp8", DataType::mxfp8},
    {"nvfp4", DataType::nvfp4},
}};

// What a kernel of this name does to memory; the pass matters for norms alone.
constexpr std::array<std::pair<std::string_view, MemoryKernel>, 66> kMemoryOps{{
    {"elementwise", MemoryKernel::elementwise},
    {"copy", MemoryKernel::elementwise},
    {"triad", MemoryKernel::elementwise},
    {"swiglu_forward", MemoryKernel::elementwise},
    {"swiglu_backward", MemoryKernel::elementwise},
    {"swiglu", MemoryKernel::elementwise},
    {"geglu", MemoryKernel::elementwise},
    {"relu_squared", MemoryKernel::elementwise},
    {"residual_dropout", MemoryKernel::elementwise},
    {"cast", MemoryKernel::elementwise},
    {"quantise_fp8", MemoryKernel::quantise},
    {"fp8_quantise", MemoryKernel::elementwise},
    {"mxfp8_cast", MemoryKernel::elementwise},
    {"nvfp4_quantise", MemoryKernel::elementwise},
    {"scale_matrix", MemoryKernel::elementwise},
    {"clone", MemoryKernel::elementwise},
    {"elementwise a*2", MemoryKernel::elementwise},
    {"add", MemoryKernel::elementwise},
    {"addu", MemoryKernel::elementwise},
    {"mul", MemoryKernel::elementwise},
    {"mulu", MemoryKernel::elementwise},
    {"div", MemoryKernel::elementwise},
    {"divu", MemoryKernel::elementwise},
    {"pow", MemoryKernel::elementwise},
    {"powu", MemoryKernel::elementwise},
    {"relu", MemoryKernel::elementwise},
    {"tanh", MemoryKernel::elementwise},
    {"gelu", MemoryKernel::elementwise},
    {"silu_mul_or_gelu", MemoryKernel::elementwise},
    {"act_fn", MemoryKernel::elementwise},
    {"residual_add", MemoryKernel::elementwise},
    {"stream_scale", MemoryKernel::elementwise},
    {"stream_triad", MemoryKernel::elementwise},
    {"enc-attention-dropout", MemoryKernel::elementwise},
    {"enc-post-attention-dropout", MemoryKernel::elementwise},
    {"enc-post-MLP-dropout", MemoryKernel::elementwise},
    {"enc-MLP-GeLU", MemoryKernel::elementwise},
    {"norm_forward", MemoryKernel::norm_forward},
    {"norm_backward", MemoryKernel::norm_backward},
    {"rms_norm_forward", MemoryKernel::norm_forward},
    {"layer_norm_forward", MemoryKernel::norm_forward},
    {"rms_norm_backward", MemoryKernel::norm_backward},
    {"layer_norm_backward", MemoryKernel::norm_backward},
    {"rms_norm", MemoryKernel::norm_forward},
    {"layer_norm", MemoryKernel::norm_forward},
    {"rmsnorm", MemoryKernel::norm_forward},
    {"layernorm", MemoryKernel::norm_forward},
    {"ln", MemoryKernel::norm_forward},
    {"final_layernorm", MemoryKernel::norm_forward},
    {"enc-1st-layernorm", MemoryKernel::norm_forward},
    {"enc-2nd-layernorm", MemoryKernel::norm_forward},
    {"rotary", MemoryKernel::rotary},
    {"rope", MemoryKernel::rotary},
    {"rotary_emb", MemoryKernel::rotary},
    {"softmax", MemoryKernel::softmax},
    {"cross_entropy", MemoryKernel::softmax},
    {"cross_entropy_forward", MemoryKernel::softmax},
    {"cross_entropy_backward", MemoryKernel::softmax},
    {"enc-attention-softmax", MemoryKernel::softmax},
    {"embedding", MemoryKernel::embedding},
    {"optimizer", MemoryKernel::optimizer},
    {"adam", MemoryKernel::optimizer},
    {"fused_adam", MemoryKernel::optimizer},
    {"fused_adamw", MemoryKernel::optimizer},
    {"fused_adam_amsgrad", MemoryKernel::optimizer},
    {"permute", MemoryKernel::permute},
}};

// A bandwidth without a time is that of a buffer far beyond any cache.
constexpr Bytes kLargeBuffer = gigabytes(4);

template <class E, std::size_t N>
std::optional<E> named(const std::array<std::pair<std::string_view, E>, N>& names,
                       std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (const auto& [known, value] : names) {
    if (known == name) return value;
  }
  return std::nullopt;
}

/// A row cannot be used, though nothing is wrong with it.
struct LeftOut {
  std::string reason;
};

Seconds time_of(const SampleRow& row) {
  const std::string text = row.text({"time_us", "median_us"});
  if (text == "inf" || text == "nan") throw LeftOut{"no time"};  // a run that failed
  return microseconds(row.number({"time_us", "median_us"}));
}

DataType type_of(const SampleRow& row) {
  std::string name = row.text({"type", "dtype", "act_dtype"});
  // int8 products come under the name of the width.
  if (name.starts_with("a8w8") && row.has("q_dtype")) name = row.text({"q_dtype"});
  if (name.empty()) name = "bf16";
  const auto type = named(kTypes, name);
  if (!type) throw LeftOut{fmt::format("type {}", name)};
  return *type;
}

bool is_backward(const SampleRow& row) {
  const std::string pass = row.text({"pass"});
  return pass == "bwd" || pass == "backward";
}

GemmSample gemm_of(const SampleRow& row) {
  GemmSample sample{.type = type_of(row),
                    .shape = {.m = row.count({"m"}),
                              .n = row.count({"n"}),
                              .k = row.count({"k"}),
                              .batch = row.count_or({"groups", "batch"}, 1)},
                    .quantise_traffic = {},
                    .time = time_of(row)};
  if (row.text({"pass"}) == "wgrad" && sample.shape.batch == 1) {
    sample.shape.result_traffic = bytes(8);  // adds to gradients in fp32
  }
  if (row.has("quantise_bytes") && row.text({"quantise_bytes"}) != "0") {
    sample.quantise_traffic = bytes(row.number({"quantise_bytes"}));
  }
  return sample;
}

bool is_causal(const SampleRow& row) {
  if (const auto mask = row.find({"mask"})) return *mask != "no_mask";
  const std::string causal = row.text({"causal"});
  return causal.empty() || causal == "1" || causal == "true";
}

AttentionSample attention_of(const SampleRow& row) {
  const DataType type = type_of(row);
  if (type != DataType::bf16 && type != DataType::fp16) {
    throw LeftOut{"attention not in 16 bits"};
  }
  if (row.has("window")) throw LeftOut{"attention in a window"};
  if (row.text({"deterministic_bwd"}) == "True") throw LeftOut{"deterministic attention backward"};
  const std::int64_t queries = row.count({"seq_q", "sequence", "seqlen", "length"});
  const std::int64_t dim = row.count({"dim_qk", "head_dim"});
  const bool cached = row.has("cache_bytes") && row.text({"cache_bytes"}) != "0";
  return {.pass = is_backward(row) ? AttentionPass::backward : AttentionPass::forward,
          .shape = {.batch = row.count_or({"batch", "batch_size"}, 1),
                    .heads = row.count({"heads"}),
                    .queries = queries,
                    .keys = row.count_or({"seq_kv"}, queries),
                    .qk_dim = dim,
                    .v_dim = row.count_or({"dim_v"}, dim),
                    .causal = is_causal(row)},
          .time = time_of(row),
          .cached = cached ? bytes(row.number({"cache_bytes"})) : Bytes{}};
}

ExpertSample experts_of(const SampleRow& row) {
  if (row.has("distribution") && row.text({"distribution"}) != "balanced") {
    throw LeftOut{"experts with uneven loads"};
  }
  if (row.text({"gated"}) == "0") throw LeftOut{"experts without a gate"};
  return {.type = type_of(row),
          .shape = {.tokens = row.count({"num_tokens", "tokens"}),
                    .hidden = row.count({"hidden_size", "hidden"}),
                    .inner = row.count({"inter_size", "inner"}),
                    .chosen = row.count({"topk", "chosen"}),
                    .experts = row.count({"num_experts", "experts"}),
                    .tp = row.count_or({"moe_tp", "tp"}, 1),
                    .ep = row.count_or({"moe_ep", "ep"}, 1)},
          .time = time_of(row)};
}

MemoryKernel memory_kernel_of(const SampleRow& row) {
  const std::string op = row.text({"op", "kernel"});
  const auto kernel = named(kMemoryOps, op);
  if (!kernel) throw LeftOut{op.empty() ? "no op" : fmt::format("op {}", op)};
  const bool norm = *kernel == MemoryKernel::norm_forward && is_backward(row);
  return norm ? MemoryKernel::norm_backward : *kernel;
}

MemoryKernelSample memory_of(const SampleRow& row) {
  const MemoryKernel kernel = memory_kernel_of(row);
  if (row.has("moved_bytes")) {
    return {.kernel = kernel, .moved = bytes(row.number({"moved_bytes"})), .time = time_of(row)};
  }
  if (!row.has("gbps")) throw LeftOut{"no bandwidth"};
  const BytesPerSecond rate = gigabytes_per_second(row.number({"gbps"}));
  if (!row.has("time_us")) {
    return {.kernel = kernel, .moved = kLargeBuffer, .time = kLargeBuffer / rate};
  }
  return {.kernel = kernel, .moved = rate * time_of(row), .time = time_of(row)};
}

/// Forward and backward in one row: bandwidths, or megabytes of a forward pass (Aceso's tables);
/// there, backward also reads the output's gradient and writes the input's.
void add_both_passes(const SampleRow& row, KernelSamples& into) {
  const MemoryKernel kernel = memory_kernel_of(row);
  const MemoryKernel backward =
      kernel == MemoryKernel::norm_forward ? MemoryKernel::norm_backward : kernel;
  const Seconds forward_time = microseconds(row.number({"fwd_us"}));
  const Seconds backward_time = microseconds(row.number({"bwd_us"}));
  if (row.has("fwd_gbps")) {
    const auto rate = [&row](std::string_view name) {
      return gigabytes_per_second(row.number({name}));
    };
    into.memory.push_back({kernel, rate("fwd_gbps") * forward_time, forward_time});
    into.memory.push_back({backward, rate("bwd_gbps") * backward_time, backward_time});
    return;
  }
  if (kernel == MemoryKernel::embedding) throw LeftOut{"embedding of unknown traffic"};
  const Bytes moved = mebibytes(row.number({"input_mb"}) + row.number({"output_mb"}));
  into.memory.push_back({kernel, moved, forward_time});
}

/// Rows of buffers by elements, in fp32 (LLMCompass's tables): each is read and written.
MemoryKernelSample elements_of(const SampleRow& row) {
  const double elements = row.number({"dim0"}) * row.number({"dim1"});
  return {.kernel = memory_kernel_of(row),
          .moved = bytes(2 * 2 * elements),
          .time = seconds(elements / (1e9 * row.number({"gelements_per_s"})))};
}

/// The runs that count: those that were not throttled, or all where none was spared.
RepeatedSample repeated_of(const SampleRow& row) {
  RepeatedSample sample{.kernel = row.text({"case"}), .times = {}};
  const auto times = row.list("time_us");
  const auto throttled = row.list("throttled");
  const auto counts = [&throttled](std::size_t i) {
    return i >= throttled.size() || throttled[i].value_or(0) == 0;
  };
  bool any = false;
  for (std::size_t i = 0; i < times.size(); ++i) any = any || counts(i);
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (!times[i] || !(*times[i] > 0)) row.fail("time_us: expected times above 0");
    if (counts(i) || !any) sample.times.push_back(microseconds(*times[i]));
  }
  if (sample.times.size() < 2) throw LeftOut{"a repeated kernel without its single times"};
  return sample;
}

/// A kernel, not a collective, that was run again and again.
bool is_repeated_kernel(const SampleRow& row) {
  return row.has("repeated") && !row.has("failure") && !row.has("ranks_per_node");
}

/// Records hold what is no kernel on its own: collectives, copies over the host, side-by-side runs.
bool is_kernel_alone(const SampleRow& row) {
  constexpr std::array<std::string_view, 4> kHost{"launch", "launch_graph", "host_to_device",
                                                  "device_to_host"};
  const std::string op = row.text({"op"});
  return !row.has("beside_op") && !row.has("repeated") && !row.has("failure") &&
         std::ranges::find(kHost, op) == kHost.end();
}

/// Medians by the name of the case; of repeated kernels without that word.
using AloneTimes = std::map<std::string, Seconds>;

AloneTimes alone_times(const SampleTable& table) {
  AloneTimes times;
  for (const SampleRow& row : table.rows) {
    if (!row.has("case") || row.has("failure") || row.has("beside_op")) continue;
    std::string name = row.text({"case"});
    const bool repeated = is_repeated_kernel(row);
    if (repeated) name = name.substr(0, name.rfind(" repeated="));
    // Back to back and warm, as beside a collective: better than with an emptied cache.
    if (repeated || !times.contains(name)) times[name] = time_of(row);
  }
  return times;
}

BesideSample beside_of(const SampleRow& row, const AloneTimes& alone) {
  const std::string name = row.text({"case"});
  const auto found = alone.find(name.substr(0, name.find(" beside_op=")));
  if (found == alone.end()) throw LeftOut{"beside a collective, not timed alone"};
  return {.kernel = name,
          .across_domains = row.count({"beside_nodes"}) > 1,
          .alone = found->second,
          .beside = time_of(row)};
}

void add(const SampleRow& row, const AloneTimes& alone, KernelSamples& into) {
  if (is_repeated_kernel(row)) {
    into.repeated.push_back(repeated_of(row));
    return;
  }
  if (row.has("beside_ranks_per_node") && !row.has("failure")) {
    into.beside.push_back(beside_of(row, alone));
    return;
  }
  if (row.has("ranks_per_node")) throw LeftOut{"a collective: --system fits those alone"};
  if (!is_kernel_alone(row)) throw LeftOut{"no kernel alone"};
  if (row.has("m") && row.has("n") && row.has("k")) {
    into.gemm.push_back(gemm_of(row));
  } else if (row.has("num_experts") || row.has("experts")) {
    into.experts.push_back(experts_of(row));
  } else if (row.has("heads")) {
    into.attention.push_back(attention_of(row));
  } else if (row.has("fwd_us")) {
    add_both_passes(row, into);
  } else if (row.has("gelements_per_s")) {
    into.memory.push_back(elements_of(row));
  } else if (row.has("op") || row.has("kernel") || row.has("launch_mode")) {
    into.memory.push_back(memory_of(row));
  } else {
    row.fail(
        "a table of no known kind; expected columns m, n, k (GEMM), heads, seqlen, head_dim "
        "(attention), num_experts (experts) or op, gbps (memory)");
  }
}

bool kept(const SampleRow& row, const SampleReading& reading) {
  return std::all_of(reading.where.begin(), reading.where.end(), [&row](const auto& condition) {
    const auto text = row.find({condition.column});
    return !text || *text == condition.value || text->starts_with(condition.value + " ");
  });
}

KernelSamples& of_gpu(KernelSampleFiles& out, const std::string& gpu) {
  for (KernelSamples& samples : out.gpus) {
    if (samples.gpu == gpu) return samples;
  }
  KernelSamples& samples = out.gpus.emplace_back();
  samples.gpu = gpu;
  return samples;
}

void add_source(KernelSamples& samples, const std::string& source) {
  if (samples.source.find(source) != std::string::npos) return;
  samples.source += (samples.source.empty() ? "" : ", ") + source;
}

}  // namespace

SampleCondition sample_condition(const std::string& text) {
  const std::size_t sign = text.find('=');
  if (sign == 0 || sign == std::string::npos) {
    throw InputError(fmt::format("\"{}\": expected COLUMN=VALUE", text));
  }
  return {.column = text.substr(0, sign), .value = text.substr(sign + 1)};
}

bool is_kernel_samples(const std::filesystem::path& file) { return is_sample_table(file); }

KernelSampleFiles read_kernel_samples(std::span<const std::filesystem::path> files,
                                      const SampleReading& reading) {
  KernelSampleFiles out;
  for (const std::filesystem::path& file : files) {
    SampleTable table;
    read_sample_table(file, table);
    const AloneTimes alone = alone_times(table);
    for (SampleRow& row : table.rows) {
      for (const SampleCondition& column : reading.assume) row.assume(column.column, column.value);
      if (!kept(row, reading)) continue;
      const auto gpu = row.find({"gpu"});
      KernelSamples& samples = of_gpu(out, gpu ? std::string(*gpu) : table.gpu);
      try {
        add(row, alone, samples);
        add_source(samples, row.has("source") ? row.text({"source"}) : file.filename().string());
      } catch (const LeftOut& reason) {
        ++out.left_out[reason.reason];
      }
    }
  }
  return out;
}

}  // namespace flopcast
