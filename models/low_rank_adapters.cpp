#include "models/low_rank_adapters.h"

#include <numeric>

namespace flopcast {

std::int64_t AdapterWidths::output() const {
  return std::accumulate(outputs.begin(), outputs.end(), std::int64_t{0});
}

AdapterWidths adapter_widths(const Transformer& model, const LowRankAdapters& adapters,
                             AdapterTarget target) {
  const std::int64_t query = model.query_width();
  const std::int64_t kv = model.kv_width();
  AdapterWidths widths;
  switch (target) {
    case AdapterTarget::linear_qkv: widths = {model.hidden, {query, kv, kv}}; break;
    case AdapterTarget::linear_proj: return {query, {model.hidden}};
    case AdapterTarget::linear_fc1:
      if (!model.gated_mlp) return {model.hidden, {model.ffn}};
      widths = {model.hidden, {model.ffn, model.ffn}};
      break;
    case AdapterTarget::linear_fc2: return {model.ffn, {model.hidden}};
  }
  if (!adapters.separate) widths.outputs = {widths.output()};
  return widths;
}

}  // namespace flopcast
