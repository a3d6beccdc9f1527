#include "scenarios/trace_samples.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>

namespace flopcast {
namespace {

using Dims = std::vector<std::vector<std::int64_t>>;  // of each input; empty where it is no tensor
using Fields = std::vector<SampleField>;

struct TracedOperator {
  std::string name;
  Dims dims;
  std::string type;
};

Dims read_dims(const Node& node) {
  Dims dims;
  for (const Node& input : node.items()) {
    std::vector<std::int64_t>& sizes = dims.emplace_back();
    if (!input.is_array()) continue;
    for (const Node& size : input.items()) {
      if (size.is_number()) sizes.push_back(size.integer());
    }
  }
  return dims;
}

/// Of the first tensor: "c10::BFloat16" and the like.
std::string read_type(const Node& arguments) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNames{
      {{"c10::BFloat16", "bf16"}, {"c10::Half", "fp16"}, {"float", "fp32"}, {"double", "fp64"}}};
  const auto types = arguments.find("Input type");
  if (!types) return {};
  for (const Node& type : types->items()) {
    for (const auto& [theirs, ours] : kNames) {
      if (type.is_text() && type.text() == theirs) return std::string(ours);
    }
  }
  return {};
}

void add(Fields& fields, std::string name, std::int64_t value) {
  fields.push_back({.name = std::move(name), .text = fmt::format("{}", value), .column = 1});
}

/// C = A B for the inputs at `a` and the one after it; batched with three dimensions.
Fields product_fields(const Dims& dims, std::size_t a) {
  if (dims.size() < a + 2 || dims[a].size() < 2 || dims[a].size() != dims[a + 1].size()) return {};
  const std::vector<std::int64_t>& left = dims[a];
  const std::vector<std::int64_t>& right = dims[a + 1];
  Fields fields;
  add(fields, "m", left[left.size() - 2]);
  add(fields, "k", left.back());
  add(fields, "n", right.back());
  if (left.size() == 3) add(fields, "batch", left.front());
  return fields;
}

/// Queries and keys, [batch, length, heads, head size], from the input at `q`.
Fields attention_fields(const Dims& dims, std::size_t q, std::string_view pass) {
  if (dims.size() < q + 2 || dims[q].size() != 4 || dims[q + 1].size() != 4) return {};
  Fields fields;
  add(fields, "batch", dims[q][0]);
  add(fields, "seq_q", dims[q][1]);
  add(fields, "seq_kv", dims[q + 1][1]);
  add(fields, "heads", dims[q][2]);
  add(fields, "head_dim", dims[q][3]);
  fields.push_back({.name = "pass", .text = std::string(pass), .column = 1});
  return fields;
}

Fields fields_of(const TracedOperator& op) {
  if (op.name == "aten::mm" || op.name == "aten::bmm") return product_fields(op.dims, 0);
  if (op.name == "aten::addmm") return product_fields(op.dims, 1);
  if (op.name == "aten::_flash_attention_forward") return attention_fields(op.dims, 0, "forward");
  if (op.name == "aten::_flash_attention_backward") return attention_fields(op.dims, 1, "backward");
  return {};
}

std::optional<std::int64_t> external_id(const Node& event) {
  const auto arguments = event.find("args");
  const auto id = arguments ? arguments->find("External id") : std::nullopt;
  return id ? std::optional(id->integer()) : std::nullopt;
}

}  // namespace

bool is_profiler_trace(std::string_view text) {
  constexpr std::size_t kHead = 1 << 16;  // properties of the devices come before the events
  return text.starts_with("{") && text.substr(0, kHead).find("\"traceEvents\"") != text.npos;
}

void read_profiler_trace(const Document& trace, SampleTable& into) {
  const Node root = trace.root();
  if (const auto devices = root.find("deviceProperties"); devices && !devices->items().empty()) {
    into.gpu = devices->items().front().at("name").text();
  }
  std::map<std::int64_t, TracedOperator> operators;
  std::map<std::int64_t, double> times;  // us
  const Node events = root.at("traceEvents");
  for (const Node& event : events.items()) {
    const auto category = event.find("cat");
    const auto id = category ? external_id(event) : std::nullopt;
    if (!id) continue;
    if (category->text() == "kernel") times[*id] += event.at("dur").number();
    const auto dims = event.at("args").find("Input Dims");
    if (category->text() == "cpu_op" && dims) {
      operators[*id] = {event.at("name").text(), read_dims(*dims), read_type(event.at("args"))};
    }
  }
  if (operators.empty()) {
    events.fail("no operator has \"Input Dims\"; record the trace with record_shapes=True");
  }
  for (const auto& [id, op] : operators) {
    Fields fields = fields_of(op);
    if (fields.empty() || !times.contains(id)) continue;
    fields.push_back({.name = "dtype", .text = op.type, .column = 1});
    fields.push_back({.name = "time_us", .text = fmt::format("{:.9g}", times[id]), .column = 1});
    into.rows.emplace_back(into.file, 1, std::move(fields));
  }
}

}  // namespace flopcast
