#include "sim/fold_programs.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/check.h"

namespace flopcast {
namespace {

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15U;
  hash = (hash ^ word) * kOdd;
  return hash ^ (hash >> 32U);
}

template <class Key, class Row, class KeyOf>
std::vector<std::uint32_t> first_equal(const std::vector<Row>& rows, KeyOf key_of) {
  std::map<Key, std::uint32_t> first;
  std::vector<std::uint32_t> result;
  result.reserve(rows.size());
  for (const Row& row : rows) {
    const auto id = static_cast<std::uint32_t>(result.size());
    result.push_back(first.try_emplace(key_of(row), id).first->second);
  }
  return result;
}

}  // namespace

FoldedPrograms::FoldedPrograms(const Workload& workload)
    : first_equal_kernel(
          first_equal<double>(workload.kernels, [](const Kernel& k) { return k.duration.value; })) {
  using TransferKey = std::tuple<double, double, double, std::uint8_t, double>;
  first_equal_transfer = first_equal<TransferKey>(workload.transfers, [](const Transfer& t) {
    return TransferKey{t.latency.value, t.size.value, t.solo_rate.value, t.pattern,
                       t.compute_share};
  });
  compare_variants(workload.variants);
  std::multimap<std::uint64_t, std::uint32_t> classes;  // first programs, by hash
  slot_uses.resize(workload.programs.size());
  for (std::uint32_t id = 0; id < workload.programs.size(); ++id) {
    const Program& program = workload.programs[id];
    const std::uint64_t hash = scan(program, workload.transfers, slot_uses[id]);
    const auto [begin, end] = classes.equal_range(hash);
    const auto found = std::find_if(begin, end, [&](const auto& entry) {
      return equal(workload.programs[entry.second], program);
    });
    class_of.push_back(found == end ? id : found->second);
    if (found == end) classes.emplace(hash, id);
  }
}

void FoldedPrograms::compare_variants(const std::vector<Variant>& variants) {
  const auto same = [this](const Variant& a, const Variant& b) {
    return a.sizes == b.sizes && std::ranges::equal(a.rows, b.rows, [this](auto x, auto y) {
             return first_equal_kernel[x] == first_equal_kernel[y];
           });
  };
  std::multimap<std::uint64_t, std::uint32_t> classes;  // first variants, by hash
  for (std::uint32_t id = 0; id < variants.size(); ++id) {
    std::uint64_t hash = variants[id].rows.size();
    for (const std::uint32_t row : variants[id].rows) {
      FLOPCAST_CHECK(row < first_equal_kernel.size(), "a variant names kernels of the table");
      hash = mix(hash, first_equal_kernel[row]);
    }
    for (const std::int64_t size : variants[id].sizes) {
      hash = mix(hash, static_cast<std::uint64_t>(size));
    }
    const auto [begin, end] = classes.equal_range(hash);
    const auto found = std::find_if(
        begin, end, [&](const auto& entry) { return same(variants[entry.second], variants[id]); });
    variant_class.push_back(found == end ? id : found->second);
    if (found == end) classes.emplace(hash, id);
  }
}

std::uint32_t FoldedPrograms::row_of(const Op& op) const {
  switch (op.kind) {
    case OpKind::compute: return first_equal_kernel[op.row];
    case OpKind::collective:
    case OpKind::send: return first_equal_transfer[op.row];
    case OpKind::recv:
    case OpKind::record:
    case OpKind::wait:
    case OpKind::allocate:
    case OpKind::release: return op.row;
  }
  return op.row;
}

void FoldedPrograms::rename_rows(Program& program) const {
  for (auto& stream : program.streams) {
    for (Op& op : stream) op.row = row_of(op);
  }
}

bool FoldedPrograms::equal(const Program& a, const Program& b) const {
  const auto equal_ops = [this](const Op& x, const Op& y) {
    return x.kind == y.kind && x.category == y.category && x.slot == y.slot &&
           row_of(x) == row_of(y) && x.tag == y.tag && x.label == y.label && x.size == y.size;
  };
  return a.events == b.events &&
         std::equal(a.streams.begin(), a.streams.end(), b.streams.begin(), b.streams.end(),
                    [&](const std::vector<Op>& x, const std::vector<Op>& y) {
                      return std::equal(x.begin(), x.end(), y.begin(), y.end(), equal_ops);
                    });
}

/// Hash of what the program does; notes its slots on the way.
std::uint64_t FoldedPrograms::scan(const Program& program, const std::vector<Transfer>& transfers,
                                   std::vector<SlotUse>& slots) const {
  std::uint64_t hash = program.events;
  for (const auto& stream : program.streams) {
    hash = mix(hash, stream.size());
    for (const Op& op : stream) {
      const bool transfer = op.kind == OpKind::collective || op.kind == OpKind::send;
      FLOPCAST_CHECK(op.kind != OpKind::compute || op.row < first_equal_kernel.size(),
                     "a compute op names a kernel of the table");
      FLOPCAST_CHECK(!transfer || op.row < first_equal_transfer.size(),
                     "an op names a transfer of the table");
      const auto what = (std::uint64_t{row_of(op)} << 32U) | (std::uint64_t{op.slot} << 16U) |
                        (std::uint64_t{static_cast<std::uint16_t>(op.category)} << 4U) |
                        static_cast<std::uint64_t>(op.kind);
      const auto which = (std::uint64_t{op.tag} << 32U) | static_cast<std::uint64_t>(op.label);
      hash = mix(mix(hash, what), which ^ static_cast<std::uint64_t>(op.size));
      if (!transfer && op.kind != OpKind::recv) continue;
      if (op.slot >= slots.size()) slots.resize(op.slot + std::size_t{1});
      slots[op.slot].used = true;
      if (op.kind != OpKind::collective) slots[op.slot].message = true;
      if (transfer) slots[op.slot].patterns |= pattern_bit(transfers[op.row].pattern);
    }
  }
  return hash;
}

}  // namespace flopcast
