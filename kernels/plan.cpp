#include "kernels/plan.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace flopcast {
namespace {

// One linear layer split over tensor-parallel ranks: outputs and inputs of a rank.
struct LinearLayer {
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
};

// Published configurations, config.json of each model. QKV with grouped heads, gate and up fused.
constexpr std::array kLayers{
    LinearLayer{6144, 4096},    // Llama 3 8B: QKV, 32 + 2 * 8 heads of 128
    LinearLayer{28672, 4096},   // Llama 3 8B: gate and up
    LinearLayer{4096, 14336},   // Llama 3 8B: down
    LinearLayer{2560, 8192},    // Llama 3 70B, TP 4: QKV
    LinearLayer{8192, 2048},    // Llama 3 70B, TP 4: output projection
    LinearLayer{14336, 8192},   // Llama 3 70B, TP 4: gate and up
    LinearLayer{8192, 7168},    // Llama 3 70B, TP 4: down
    LinearLayer{32064, 8192},   // Llama 3 70B, TP 4: logits of 128256 tokens
    LinearLayer{2304, 16384},   // Llama 3 405B, TP 8: QKV
    LinearLayer{13312, 16384},  // Llama 3 405B, TP 8: gate and up
    LinearLayer{16384, 6656},   // Llama 3 405B, TP 8: down
    LinearLayer{4608, 12288},   // GPT-3 175B, TP 8: QKV
    LinearLayer{6144, 12288},   // GPT-3 175B, TP 8: MLP up
    LinearLayer{12288, 6144},   // GPT-3 175B, TP 8: MLP down
};

double radical_inverse(int base, int index) {
  double value = 0;
  double digit = 1;
  for (; index > 0; index /= base) {
    digit /= base;
    value += digit * (index % base);
  }
  return value;
}

std::int64_t on_log_scale(double from, double to, double at) {
  return static_cast<std::int64_t>(std::lround(from * std::pow(to / from, at) / 8)) * 8;
}

// The three passes of a layer, as products.
std::vector<GemmCase> passes(std::int64_t tokens, const LinearLayer& layer) {
  return {{.pass = GemmPass::forward, .m = tokens, .n = layer.outputs, .k = layer.inputs},
          {.pass = GemmPass::dgrad, .m = tokens, .n = layer.inputs, .k = layer.outputs},
          {.pass = GemmPass::wgrad, .m = layer.outputs, .n = layer.inputs, .k = tokens}};
}

int by_effort(Effort effort, int quick, int standard, int full) {
  switch (effort) {
    case Effort::quick: return quick;
    case Effort::standard: return standard;
    case Effort::full: return full;
  }
  return full;
}

// Tensor cores: fp8 since 8.9, bf16 and tf32 since 8.0 (CUDA programming guide).
std::vector<DataType> gemm_types(const Machine& machine) {
  std::vector<DataType> types;
  if (machine.compute_major >= 8) types.push_back(DataType::bf16);
  const int compute = machine.compute_major * 10 + machine.compute_minor;
  if (compute >= 89) types.push_back(DataType::fp8);
  types.push_back(DataType::fp16);
  if (machine.compute_major >= 8) types.push_back(DataType::tf32);
  return types;
}

std::vector<MeasurementCase> gemms(Effort effort, const Machine& machine) {
  std::vector<MeasurementCase> cases;
  for (const DataType type : gemm_types(machine)) {
    const bool main = type == DataType::bf16 || type == DataType::fp8;
    std::vector<GemmCase> shapes = layer_gemms(main ? effort : Effort::quick);
    const int fill = by_effort(effort, 8, 60, 400);
    for (const GemmCase& shape : filling_gemms(main ? fill : fill / 4)) shapes.push_back(shape);
    for (GemmCase& shape : shapes) {
      shape.type = type;
      cases.emplace_back(shape);
    }
  }
  return cases;
}

// Experts of one rank: Mixtral 8x7B (hidden 4096, expert 14336) and DeepSeek-V3 (7168, 2048).
std::vector<MeasurementCase> grouped_gemms(Effort effort, const Machine& machine) {
  if (machine.compute_major < 8) return {};
  std::vector<MeasurementCase> cases;
  for (const std::int64_t tokens : {256, 1024, 4096}) {
    if (effort == Effort::quick && tokens != 1024) continue;
    for (const LinearLayer& expert : {LinearLayer{28672, 4096}, LinearLayer{4096, 7168}}) {
      for (GemmCase shape : passes(tokens, expert)) {
        shape.groups = 8;
        cases.emplace_back(shape);
      }
    }
  }
  return cases;
}

std::vector<MeasurementCase> attentions(Effort effort, const Machine& machine) {
  if (!machine.attention || machine.compute_major < 8) return {};
  std::vector<MeasurementCase> cases;
  for (const std::int64_t head_dim : {128, 64, 96, 192}) {
    if (effort == Effort::quick && head_dim != 128) continue;
    for (const std::int64_t sequence : {4096, 8192, 1024, 2048, 16384, 32768}) {
      if (sequence > by_effort(effort, 8192, 16384, 32768)) continue;
      for (const bool backward : {false, true}) {
        for (const bool causal : {true, false}) {
          if (!causal && effort == Effort::quick) continue;
          // 32768 tokens in all: what one rank holds of a batch.
          const AttentionCase shape{.batch = std::max<std::int64_t>(1, 16384 / sequence),
                                    .heads = 16,
                                    .kv_heads = causal ? 4 : 16,
                                    .sequence = sequence,
                                    .head_dim = head_dim,
                                    .causal = causal,
                                    .backward = backward};
          // Of cuDNN 9: backward at head dimensions above 128 from Hopper on.
          if (head_dim > 128 && backward && machine.compute_major < 9) continue;
          cases.emplace_back(shape);
        }
      }
    }
  }
  return cases;
}

std::vector<MeasurementCase> memory_cases(Effort effort, const Machine& machine) {
  std::vector<MeasurementCase> cases;
  for (int op = 0; op < kMemoryOps; ++op) {
    const auto kind = static_cast<MemoryOp>(op);
    if (kind == MemoryOp::quantise_fp8 && machine.compute_major < 8) continue;
    for (const std::int64_t rows : {8192, 1024, 32768}) {
      for (const std::int64_t columns : {4096, 8192, 16384}) {
        const bool quick = rows == 8192 && columns == 8192;
        const bool standard = columns != 16384 && rows != 32768;
        if (effort == Effort::quick ? !quick : effort == Effort::standard && !quick && !standard) {
          continue;
        }
        cases.emplace_back(MemoryCase{.op = kind, .rows = rows, .columns = columns});
      }
    }
  }
  return cases;
}

std::vector<MeasurementCase> host_cases(Effort effort) {
  std::vector<MeasurementCase> cases;
  for (const bool graph : {false, true}) cases.emplace_back(LaunchCase{graph, 1000});
  for (const bool to_device : {true, false}) {
    for (const Bytes size : {mebibytes(256), kibibytes(64), mebibytes(1), mebibytes(16)}) {
      if (effort == Effort::quick && size < mebibytes(16)) continue;
      cases.emplace_back(HostCopyCase{to_device, size});
    }
  }
  return cases;
}

std::vector<MeasurementCase> collectives(Effort effort, const Machine& machine) {
  if (!machine.collectives || machine.gpus_per_node * machine.nodes < 2) return {};
  const int step = by_effort(effort, 4, 2, 1);  // powers of two between sizes
  const GroupShape world{machine.gpus_per_node, machine.nodes};
  std::vector<MeasurementCase> cases;
  std::vector<GroupShape> shapes = group_shapes(machine.gpus_per_node, machine.nodes);
  std::stable_partition(shapes.begin(), shapes.end(), [&](auto s) { return s == world; });
  for (const GroupShape& shape : shapes) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      if (kind == CollectiveKind::send_recv && shape.ranks() != 2) continue;
      if (kind == CollectiveKind::broadcast && effort != Effort::full) continue;
      for (int power = 12; power <= 30; power += step) {  // 4 KiB to 1 GiB
        cases.emplace_back(CollectiveCase{kind, bytes(std::ldexp(1, power)), shape});
      }
    }
  }
  return cases;
}

std::vector<MeasurementCase> side_by_side(const Machine& machine) {
  const GemmCase gemm{.m = 8192, .n = 8192, .k = 8192};
  const MemoryCase memory{MemoryOp::rms_norm_forward, 8192, 8192};
  const CollectiveCase reduce{
      CollectiveKind::all_reduce, mebibytes(256), {machine.gpus_per_node, machine.nodes}};
  std::vector<MeasurementCase> cases;
  if (machine.compute_major >= 8) cases.emplace_back(JitterCase{gemm});
  cases.emplace_back(JitterCase{memory});
  if (!machine.collectives || reduce.group.ranks() < 2) return cases;
  cases.emplace_back(JitterCase{reduce});
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::all_to_all}) {
    const CollectiveCase beside{kind, reduce.size, reduce.group};
    for (const bool time_collective : {false, true}) {
      if (machine.compute_major >= 8) {
        cases.emplace_back(InterferenceCase{gemm, beside, time_collective});
      }
      cases.emplace_back(InterferenceCase{memory, beside, time_collective});
    }
  }
  return cases;
}

}  // namespace

Seconds time_budget(Effort effort) { return seconds(by_effort(effort, 120, 600, 3600)); }

std::vector<GemmCase> layer_gemms(Effort effort) {
  std::vector<GemmCase> cases;
  int at = 0;
  for (const LinearLayer& layer : kLayers) {
    if (effort == Effort::quick && at++ % 3 != 0) continue;
    for (const std::int64_t tokens : {4096, 8192}) {
      if (tokens == 8192 && effort != Effort::full) continue;
      for (const GemmCase& shape : passes(tokens, layer)) cases.push_back(shape);
    }
  }
  return cases;
}

std::vector<GemmCase> filling_gemms(int count) {
  std::vector<GemmCase> cases;
  cases.reserve(static_cast<std::size_t>(count));
  for (int i = 1; i <= count; ++i) {
    cases.push_back({.pass = static_cast<GemmPass>(i % 3),
                     .m = on_log_scale(64, 32768, radical_inverse(2, i)),
                     .n = on_log_scale(64, 16384, radical_inverse(3, i)),
                     .k = on_log_scale(64, 16384, radical_inverse(5, i))});
  }
  return cases;
}

std::vector<GroupShape> group_shapes(int gpus_per_node, int nodes) {
  std::vector<GroupShape> shapes;
  for (int ranks = 2; ranks <= gpus_per_node; ranks *= 2) {
    if (gpus_per_node % ranks == 0) shapes.push_back({ranks, 1});
  }
  if (gpus_per_node > 1 && (shapes.empty() || shapes.back().ranks_per_node != gpus_per_node)) {
    shapes.push_back({gpus_per_node, 1});
  }
  std::vector<int> widths{1, gpus_per_node / 2, gpus_per_node};
  if (gpus_per_node % 2 != 0) widths.erase(widths.begin() + 1);
  widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
  for (int across = 2; across < 2 * nodes; across *= 2) {
    const int used = std::min(across, nodes);
    if (nodes % used != 0) continue;
    for (const int width : widths) shapes.push_back({width, used});
  }
  return shapes;
}

// Kinds take turns, each in its own order, so that whatever ends the run early ends it fairly.
std::vector<MeasurementCase> measurement_plan(Effort effort, const Machine& machine) {
  const std::array kinds{host_cases(effort),           memory_cases(effort, machine),
                         gemms(effort, machine),       attentions(effort, machine),
                         collectives(effort, machine), grouped_gemms(effort, machine),
                         side_by_side(machine)};
  std::size_t longest = 0;
  std::size_t total = 0;
  for (const auto& kind : kinds) {
    longest = std::max(longest, kind.size());
    total += kind.size();
  }
  std::vector<MeasurementCase> plan;
  plan.reserve(total);
  // At step i of `longest` a kind has had the same part of its cases as the longest one.
  for (std::size_t i = 0; i < longest; ++i) {
    for (const auto& kind : kinds) {
      const std::size_t from = i * kind.size() / longest;
      const std::size_t to = (i + 1) * kind.size() / longest;
      for (std::size_t at = from; at < to; ++at) plan.push_back(kind[at]);
    }
  }
  return plan;
}

}  // namespace flopcast
