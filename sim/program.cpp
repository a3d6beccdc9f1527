#include "sim/program.h"

#include <utility>

#include "sim/check.h"

namespace flopcast {

ProgramBuilder::ProgramBuilder(std::size_t streams) { program_.streams.resize(streams); }

void ProgramBuilder::compute(std::size_t stream, KernelId kernel, CategoryId category,
                             LabelId label) {
  program_.streams.at(stream).push_back(
      {.kind = OpKind::compute, .category = category, .row = index_of(kernel), .label = label});
}

void ProgramBuilder::collective(std::size_t stream, std::uint16_t slot, TransferId transfer,
                                CategoryId category, LabelId label) {
  program_.streams.at(stream).push_back({.kind = OpKind::collective,
                                         .category = category,
                                         .slot = slot,
                                         .row = index_of(transfer),
                                         .label = label});
}

// NOLINTNEXTLINE(readability-function-size): the six things that make a send
void ProgramBuilder::send(std::size_t stream, std::uint16_t slot, std::uint32_t tag,
                          TransferId transfer, CategoryId category, LabelId label) {
  program_.streams.at(stream).push_back({.kind = OpKind::send,
                                         .category = category,
                                         .slot = slot,
                                         .row = index_of(transfer),
                                         .tag = tag,
                                         .label = label});
}

void ProgramBuilder::recv(std::size_t stream, std::uint16_t slot, std::uint32_t tag,
                          CategoryId category, LabelId label) {
  program_.streams.at(stream).push_back(
      {.kind = OpKind::recv, .category = category, .slot = slot, .tag = tag, .label = label});
}

EventId ProgramBuilder::record(std::size_t stream) {
  const EventId event{program_.events++};
  program_.streams.at(stream).push_back({.kind = OpKind::record, .row = index_of(event)});
  return event;
}

void ProgramBuilder::wait(std::size_t stream, EventId event) {
  FLOPCAST_CHECK(index_of(event) < program_.events, "an event is recorded before it is waited for");
  program_.streams.at(stream).push_back({.kind = OpKind::wait, .row = index_of(event)});
}

void ProgramBuilder::order(std::size_t earlier, std::size_t later) {
  if (earlier != later) wait(later, record(earlier));
}

void ProgramBuilder::allocate(std::size_t stream, CategoryId pool, std::int64_t bytes) {
  FLOPCAST_CHECK(bytes >= 0, "an allocation has a size");
  program_.streams.at(stream).push_back(
      {.kind = OpKind::allocate, .category = pool, .size = bytes});
}

void ProgramBuilder::release(std::size_t stream, CategoryId pool, std::int64_t bytes) {
  FLOPCAST_CHECK(bytes >= 0, "a release has a size");
  program_.streams.at(stream).push_back({.kind = OpKind::release, .category = pool, .size = bytes});
}

Program ProgramBuilder::finish() && { return std::move(program_); }

}  // namespace flopcast
