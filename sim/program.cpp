#include "sim/program.h"

#include <utility>

#include "sim/check.h"

namespace flopcast {

ProgramBuilder::ProgramBuilder(std::size_t streams, Amounts amounts) : amounts_(amounts) {
  program_.streams.resize(streams);
}

void ProgramBuilder::push(std::size_t stream, const Op& op) {
  if (keeps_ops()) program_.streams.at(stream).push_back(op);
}

/// Compute ops take rows, memory ops sizes.
void ProgramBuilder::push_varying(std::size_t stream, Op op) {
  if (amounts_ == Amounts::in_ops) return push(stream, op);
  if (op.kind == OpKind::compute) {
    variant_.rows.push_back(op.row);
    op.tag = static_cast<std::uint32_t>(variant_.rows.size());
  } else {
    FLOPCAST_CHECK(op.size >= 0, "memory ops have a size");
    variant_.sizes.push_back(op.size);
    op.tag = static_cast<std::uint32_t>(variant_.sizes.size());
  }
  push(stream, op);
}

void ProgramBuilder::compute(std::size_t stream, KernelId kernel, CategoryId category,
                             LabelId label) {
  push(stream,
       {.kind = OpKind::compute, .category = category, .row = index_of(kernel), .label = label});
}

void ProgramBuilder::compute_varying(std::size_t stream, KernelId kernel, CategoryId category,
                                     LabelId label) {
  push_varying(
      stream,
      {.kind = OpKind::compute, .category = category, .row = index_of(kernel), .label = label});
}

void ProgramBuilder::collective(std::size_t stream, std::uint16_t slot, TransferId transfer,
                                CategoryId category, LabelId label) {
  push(stream, {.kind = OpKind::collective,
                .category = category,
                .slot = slot,
                .row = index_of(transfer),
                .label = label});
}

// NOLINTNEXTLINE(readability-function-size): the six things that make a send
void ProgramBuilder::send(std::size_t stream, std::uint16_t slot, std::uint32_t tag,
                          TransferId transfer, CategoryId category, LabelId label) {
  push(stream, {.kind = OpKind::send,
                .category = category,
                .slot = slot,
                .row = index_of(transfer),
                .tag = tag,
                .label = label});
}

void ProgramBuilder::recv(std::size_t stream, std::uint16_t slot, std::uint32_t tag,
                          CategoryId category, LabelId label) {
  push(stream,
       {.kind = OpKind::recv, .category = category, .slot = slot, .tag = tag, .label = label});
}

EventId ProgramBuilder::record(std::size_t stream) {
  const EventId event{program_.events++};
  push(stream, {.kind = OpKind::record, .row = index_of(event)});
  return event;
}

void ProgramBuilder::wait(std::size_t stream, EventId event) {
  FLOPCAST_CHECK(index_of(event) < program_.events, "an event is recorded before it is waited for");
  push(stream, {.kind = OpKind::wait, .row = index_of(event)});
}

void ProgramBuilder::order(std::size_t earlier, std::size_t later) {
  if (earlier != later) wait(later, record(earlier));
}

void ProgramBuilder::allocate(std::size_t stream, CategoryId pool, std::int64_t bytes) {
  FLOPCAST_CHECK(bytes >= 0, "an allocation has a size");
  push(stream, {.kind = OpKind::allocate, .category = pool, .size = bytes});
}

void ProgramBuilder::release(std::size_t stream, CategoryId pool, std::int64_t bytes) {
  FLOPCAST_CHECK(bytes >= 0, "a release has a size");
  push(stream, {.kind = OpKind::release, .category = pool, .size = bytes});
}

void ProgramBuilder::allocate_varying(std::size_t stream, CategoryId pool, std::int64_t bytes) {
  push_varying(stream, {.kind = OpKind::allocate, .category = pool, .size = bytes});
}

void ProgramBuilder::release_varying(std::size_t stream, CategoryId pool, std::int64_t bytes) {
  push_varying(stream, {.kind = OpKind::release, .category = pool, .size = bytes});
}

Program ProgramBuilder::finish() && { return std::move(program_); }

}  // namespace flopcast
