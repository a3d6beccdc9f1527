#include "kernels/measurement_case.h"

#include <fmt/core.h>

#include <string_view>

#include "kernels/memory_reference.h"

namespace flopcast {
namespace {

std::string_view to_text(GemmPass pass) {
  switch (pass) {
    case GemmPass::forward: return "forward";
    case GemmPass::dgrad: return "dgrad";
    case GemmPass::wgrad: return "wgrad";
  }
  return {};
}

std::string text(std::string_view value) { return std::string(value); }
std::int64_t whole(Bytes size) { return static_cast<std::int64_t>(size.value); }
Bytes count(std::int64_t elements) { return bytes(static_cast<double>(elements)); }

struct FieldsOf {
  std::vector<CaseField> operator()(const GemmCase& gemm) const {
    return {{"op", text("gemm")},
            {"type", text(flopcast::to_text(gemm.type))},
            {"pass", text(to_text(gemm.pass))},
            {"m", gemm.m},
            {"n", gemm.n},
            {"k", gemm.k},
            {"groups", gemm.groups}};
  }
  std::vector<CaseField> operator()(const AttentionCase& attention) const {
    return {{"op", text("attention")},
            {"type", text("bf16")},
            {"pass", text(attention.backward ? "backward" : "forward")},
            {"batch", attention.batch},
            {"heads", attention.heads},
            {"kv_heads", attention.kv_heads},
            {"sequence", attention.sequence},
            {"head_dim", attention.head_dim},
            {"causal", std::int64_t{attention.causal}}};
  }
  std::vector<CaseField> operator()(const MemoryCase& memory) const {
    return {{"op", text(flopcast::to_text(memory.op))},
            {"rows", memory.rows},
            {"columns", memory.columns}};
  }
  std::vector<CaseField> operator()(const HostCopyCase& copy) const {
    return {{"op", text(copy.to_device ? "host_to_device" : "device_to_host")},
            {"size_bytes", whole(copy.size)}};
  }
  std::vector<CaseField> operator()(const LaunchCase& launch) const {
    return {{"op", text(launch.graph ? "launch_graph" : "launch")}, {"kernels", launch.kernels}};
  }
  std::vector<CaseField> operator()(const CollectiveCase& collective) const {
    return {{"op", text(flopcast::to_text(collective.kind))},
            {"size_bytes", whole(collective.size)},
            {"ranks_per_node", std::int64_t{collective.group.ranks_per_node}},
            {"nodes", std::int64_t{collective.group.nodes}}};
  }
  // Two cases in one: those of the part that is not timed carry a prefix.
  std::vector<CaseField> operator()(const InterferenceCase& both) const {
    std::vector<CaseField> kernel = std::visit(*this, both.kernel);
    std::vector<CaseField> collective = (*this)(both.collective);
    std::vector<CaseField> all = both.time_collective ? collective : kernel;
    all.reserve(kernel.size() + collective.size());
    for (const CaseField& field : both.time_collective ? kernel : collective) {
      all.push_back({"beside_" + field.name, field.value});
    }
    return all;
  }
  std::vector<CaseField> operator()(const JitterCase& jitter) const {
    std::vector<CaseField> all = std::visit(*this, jitter.repeated);
    all.push_back({"repeated", std::int64_t{1}});
    return all;
  }
};

struct WorkOf {
  CaseWork operator()(const GemmCase& gemm) const {
    const double products = static_cast<double>(gemm.m) * static_cast<double>(gemm.n) *
                            static_cast<double>(gemm.k) * static_cast<double>(gemm.groups);
    const bool fp32 =
        gemm.type == DataType::tf32 || (gemm.pass == GemmPass::wgrad && gemm.groups == 1);
    // wgrad reads what it adds to.
    const double result = (fp32 ? 4 : 2) * (gemm.pass == GemmPass::wgrad ? 2 : 1);
    return {.work = flops(2 * products),
            .moved = (count(gemm.m * gemm.k + gemm.k * gemm.n) * element_size(gemm.type).value +
                      count(gemm.m * gemm.n) * result) *
                     static_cast<double>(gemm.groups)};
  }
  // 4 b h s^2 d forward, 2.5 times that backward. Backward reads q k v o dO and writes dq dk dv.
  CaseWork operator()(const AttentionCase& a) const {
    const double scores = static_cast<double>(a.batch * a.heads) * static_cast<double>(a.sequence) *
                          static_cast<double>(a.sequence);
    const double factor = (a.causal ? 0.5 : 1) * (a.backward ? 2.5 : 1);
    const std::int64_t tokens = a.batch * a.sequence * a.head_dim;
    const std::int64_t query_arrays = a.backward ? 4 : 2;
    const std::int64_t key_arrays = a.backward ? 4 : 2;
    return {.work = flops(4 * scores * static_cast<double>(a.head_dim) * factor),
            .moved = 2 * count(tokens * (query_arrays * a.heads + key_arrays * a.kv_heads))};
  }
  CaseWork operator()(const MemoryCase& memory) const {
    return {.work = {}, .moved = moved(memory)};
  }
  CaseWork operator()(const HostCopyCase& copy) const { return {.work = {}, .moved = copy.size}; }
  CaseWork operator()(const LaunchCase&) const { return {}; }
  CaseWork operator()(const CollectiveCase& collective) const {
    return {.work = {}, .moved = collective.size};
  }
  CaseWork operator()(const InterferenceCase& both) const {
    return both.time_collective ? (*this)(both.collective) : std::visit(*this, both.kernel);
  }
  CaseWork operator()(const JitterCase& jitter) const { return std::visit(*this, jitter.repeated); }
};

}  // namespace

std::vector<CaseField> fields(const MeasurementCase& measured) {
  return std::visit(FieldsOf{}, measured);
}

std::string key(const MeasurementCase& measured) {
  std::string all;
  for (const CaseField& field : fields(measured)) {
    if (!all.empty()) all += ' ';
    all += field.name + '=';
    std::visit([&all](const auto& value) { all += fmt::format("{}", value); }, field.value);
  }
  return all;
}

CaseWork work(const MeasurementCase& measured) { return std::visit(WorkOf{}, measured); }

std::string_view to_text(MemoryOp op) {
  switch (op) {
    case MemoryOp::copy: return "copy";
    case MemoryOp::triad: return "triad";
    case MemoryOp::rms_norm_forward: return "rms_norm_forward";
    case MemoryOp::rms_norm_backward: return "rms_norm_backward";
    case MemoryOp::layer_norm_forward: return "layer_norm_forward";
    case MemoryOp::layer_norm_backward: return "layer_norm_backward";
    case MemoryOp::swiglu_forward: return "swiglu_forward";
    case MemoryOp::swiglu_backward: return "swiglu_backward";
    case MemoryOp::rope: return "rope";
    case MemoryOp::softmax: return "softmax";
    case MemoryOp::cross_entropy_forward: return "cross_entropy_forward";
    case MemoryOp::cross_entropy_backward: return "cross_entropy_backward";
    case MemoryOp::residual_dropout: return "residual_dropout";
    case MemoryOp::cast: return "cast";
    case MemoryOp::quantise_fp8: return "quantise_fp8";
    case MemoryOp::permute: return "permute";
    case MemoryOp::adam: return "adam";
    case MemoryOp::gradient_norm: return "gradient_norm";
  }
  return {};
}

}  // namespace flopcast
