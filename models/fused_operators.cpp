#include <fmt/format.h>

#include "models/operator_timing.h"

// Where each rank has a program of its own, rows are dear: kernels that nothing comes between are
// run as one.

namespace flopcast {
namespace {

using Item = TimedOperators::Item;

bool follows(const Item& first, const Item& next) {
  return first.kind == Item::Kind::kernel && next.kind == Item::Kind::kernel &&
         first.category == next.category && first.routed.has_value() == next.routed.has_value();
}

Item fused_kernel(std::span<const Item> kernels, CostTables& tables) {
  Item out = kernels.front();
  if (kernels.size() == 1) return out;
  out.label = tables.label(fmt::format("{} to {}", tables.text_of(kernels.front().label),
                                       tables.text_of(kernels.back().label)));
  Seconds sum;
  std::vector<std::uint32_t> parts;
  for (const Item& kernel : kernels) {
    sum += tables.duration(KernelId{kernel.row});
    if (kernel.routed) parts.push_back(*kernel.routed);
  }
  out.row = index_of(tables.kernel(sum));
  if (out.routed) {
    out.routed = tables.add_routed(
        {.work = std::move(parts), .precision = {}, .group = {}, .category = out.category});
  }
  return out;
}

}  // namespace

TimedOperators fused(TimedOperators work, CostTables& tables) {
  std::vector<Item> items;
  for (std::size_t first = 0; first < work.items.size();) {
    std::size_t end = first + 1;
    while (end < work.items.size() && follows(work.items[first], work.items[end])) ++end;
    items.push_back(fused_kernel(std::span(work.items).subspan(first, end - first), tables));
    first = end;
  }
  work.items = std::move(items);
  return work;
}

}  // namespace flopcast
