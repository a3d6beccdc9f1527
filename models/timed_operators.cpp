#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "models/operator_timing.h"
#include "models/step_streams.h"

// Stretches of timed operators, written into a program one after another or by turns.

namespace flopcast {
namespace {

std::size_t stream_of(StepCategory category) {
  if (category == StepCategory::context) return index_of(StepStream::context);
  if (category == StepCategory::expert) return index_of(StepStream::expert);
  return index_of(StepStream::tensor);
}

using Item = TimedOperators::Item;

void start(ProgramBuilder& program, const Item& item, std::uint32_t row) {
  const std::size_t stream = stream_of(item.category);
  program.order(kCompute, stream);
  program.collective(stream, static_cast<std::uint16_t>(item.group), TransferId{row},
                     id_of(item.category), item.label);
}

void append(ProgramBuilder& program, const Item& item, std::uint32_t row) {
  const std::size_t stream = stream_of(item.category);
  switch (item.kind) {
    case Item::Kind::kernel:
      if (item.routed) {
        program.compute_varying(kCompute, KernelId{row}, id_of(item.category), item.label);
      } else {
        program.compute(kCompute, KernelId{row}, id_of(item.category), item.label);
      }
      break;
    case Item::Kind::collective:
    case Item::Kind::exchange:
      start(program, item, row);
      program.order(stream, kCompute);
      break;
    case Item::Kind::beside: start(program, item, row); break;
    case Item::Kind::join: program.order(stream, kCompute); break;
  }
}

/// A stretch whose items are appended one by one.
class Cursor {
 public:
  Cursor(const LoadedOperators& stretch, CostTables& tables)
      : items_(stretch.work.items), load_(stretch.load), tables_(tables) {}

  bool done() const { return next_ == items_.size(); }
  const Item& next() const { return items_[next_]; }

  void append_next(ProgramBuilder& program) {
    const Item& item = items_[next_++];
    const bool varies = item.kind == Item::Kind::kernel && item.routed;
    if (program.keeps_ops() || varies) append(program, item, row_of(item));
  }
  /// The next is an exchange.
  void start_next(ProgramBuilder& program) {
    const Item& item = items_[next_++];
    if (program.keeps_ops()) start(program, item, row_of(item));
  }

 private:
  std::uint32_t row_of(const Item& item) {
    return item.routed && !load_.balanced() ? tables_.routed_row(*item.routed, load_) : item.row;
  }

  const std::vector<Item>& items_;
  const RoutingLoad load_;
  CostTables& tables_;
  std::size_t next_ = 0;
};

/// One of two stretches that take turns on the compute stream.
class Turns {
 public:
  Turns(const LoadedOperators& stretch, CostTables& tables) : cursor_(stretch, tables) {}

  bool done() const { return cursor_.done(); }

  /// Up to the next exchange, which goes on when the turn is over.
  void take(ProgramBuilder& program) {
    if (exchanged_) program.wait(kCompute, *std::exchange(exchanged_, std::nullopt));
    while (!cursor_.done() && cursor_.next().kind != Item::Kind::exchange) {
      cursor_.append_next(program);
    }
    if (cursor_.done()) return;
    const std::size_t stream = stream_of(cursor_.next().category);
    cursor_.start_next(program);
    exchanged_ = program.record(stream);
  }
  /// Waits for an exchange that ends the stretch.
  void finish(ProgramBuilder& program) {
    if (exchanged_) program.wait(kCompute, *exchanged_);
  }

 private:
  Cursor cursor_;
  std::optional<EventId> exchanged_;
};

}  // namespace

void append(ProgramBuilder& program, const LoadedOperators& stretch, CostTables& tables) {
  Cursor cursor(stretch, tables);
  while (!cursor.done()) cursor.append_next(program);
}

void append_beside(ProgramBuilder& program, const LoadedOperators& first,
                   const LoadedOperators& second, CostTables& tables) {
  std::array turns{Turns(first, tables), Turns(second, tables)};
  while (!turns[0].done() || !turns[1].done()) {
    for (Turns& turn : turns) {
      if (!turn.done()) turn.take(program);
    }
  }
  for (Turns& turn : turns) turn.finish(program);
}

}  // namespace flopcast
