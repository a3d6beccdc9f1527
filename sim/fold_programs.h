#pragma once

// Inside fold(): which programs do the same, and what each does with its slots.

#include <cstdint>
#include <vector>

#include "sim/workload.h"

namespace flopcast {

/// How a program uses one slot of its rank.
struct SlotUse {
  bool used = false;
  bool message = false;        // sends or receives
  std::uint64_t patterns = 0;  // of its transfers, one bit each; 63 and above share one
};

constexpr std::uint64_t pattern_bit(std::size_t pattern) {
  return std::uint64_t{1} << (pattern < 63 ? pattern : 63);
}

struct FoldedPrograms {
  explicit FoldedPrograms(const Workload& workload);

  bool uses(ProgramId program, std::size_t slot) const {
    const auto& slots = slot_uses[index_of(program)];
    return slot < slots.size() && slots[slot].used;
  }
  /// Writes the first of equal rows into all ops, so that class-mates bring the same transfers.
  void rename_rows(Program& program) const;

  std::vector<std::uint32_t> class_of;              // by ProgramId
  std::vector<std::uint32_t> variant_class;         // by VariantId
  std::vector<std::vector<SlotUse>> slot_uses;      // by ProgramId and slot
  std::vector<std::uint32_t> first_equal_kernel;    // by KernelId
  std::vector<std::uint32_t> first_equal_transfer;  // by TransferId

 private:
  void compare_variants(const std::vector<Variant>& variants);
  std::uint32_t row_of(const Op& op) const;
  bool equal(const Program& a, const Program& b) const;
  std::uint64_t scan(const Program& program, const std::vector<Transfer>& transfers,
                     std::vector<SlotUse>& slots) const;
};

}  // namespace flopcast
