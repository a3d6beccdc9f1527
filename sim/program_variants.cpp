#include "sim/program_variants.h"

#include <algorithm>
#include <utility>

namespace flopcast {
namespace {

bool is_memory(OpKind kind) { return kind == OpKind::allocate || kind == OpKind::release; }

bool can_vary(OpKind kind) { return kind == OpKind::compute || is_memory(kind); }

bool same_but_amount(const Op& a, const Op& b) {
  const bool row = a.kind == OpKind::compute || a.row == b.row;
  const bool size = is_memory(a.kind) || a.size == b.size;
  return a.kind == b.kind && a.category == b.category && a.slot == b.slot && a.tag == b.tag &&
         a.label == b.label && row && size;
}

bool same_but_amounts(const Program& a, const Program& b) {
  return a.events == b.events &&
         std::ranges::equal(a.streams, b.streams, [](const auto& x, const auto& y) {
           return std::ranges::equal(x, y, same_but_amount);
         });
}

/// Calls `visit(stream, op)` for each.
template <class Visit>
void for_each_op(const Program& program, Visit visit) {
  for (std::size_t stream = 0; stream < program.streams.size(); ++stream) {
    for (std::size_t op = 0; op < program.streams[stream].size(); ++op) visit(stream, op);
  }
}

Variant variant_of(const Program& numbered, const Program& source) {
  Variant variant;
  for_each_op(numbered, [&](std::size_t stream, std::size_t i) {
    const Op& op = numbered.streams[stream][i];
    if (!can_vary(op.kind) || op.tag == 0) return;
    const Op& own = source.streams[stream][i];
    if (op.kind == OpKind::compute) {
      variant.rows.push_back(own.row);
    } else {
      variant.sizes.push_back(own.size);
    }
  });
  return variant;
}

/// The first of `alike` with the places of what varies among them.
Program numbered(const std::vector<const Program*>& alike) {
  Program program = *alike.front();
  std::uint32_t rows = 0;
  std::uint32_t sizes = 0;
  for_each_op(*alike.front(), [&](std::size_t stream, std::size_t i) {
    Op& op = program.streams[stream][i];
    const bool varies = std::ranges::any_of(alike, [&](const Program* other) {
      const Op& its = other->streams[stream][i];
      return its.row != op.row || its.size != op.size;
    });
    if (varies) op.tag = op.kind == OpKind::compute ? ++rows : ++sizes;
  });
  return program;
}

}  // namespace

SharedPrograms share_programs(std::vector<Program> sources) {
  SharedPrograms out;
  out.places.resize(sources.size());
  std::vector<std::vector<std::uint32_t>> classes;
  for (std::uint32_t i = 0; i < sources.size(); ++i) {
    const auto found = std::ranges::find_if(classes, [&](const auto& members) {
      return same_but_amounts(sources[members.front()], sources[i]);
    });
    out.places[i].program = static_cast<std::uint32_t>(found - classes.begin());
    if (found == classes.end()) {
      classes.push_back({i});
    } else {
      found->push_back(i);
    }
  }
  for (const std::vector<std::uint32_t>& members : classes) {
    if (members.size() == 1) {
      out.programs.push_back(std::move(sources[members.front()]));
      continue;
    }
    std::vector<const Program*> alike;
    alike.reserve(members.size());
    for (const std::uint32_t member : members) alike.push_back(&sources[member]);
    out.programs.push_back(numbered(alike));
    for (const std::uint32_t member : members) {
      out.places[member].variant = static_cast<std::uint32_t>(out.variants.size());
      out.variants.push_back(variant_of(out.programs.back(), sources[member]));
    }
  }
  return out;
}

}  // namespace flopcast
