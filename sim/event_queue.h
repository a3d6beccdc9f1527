#pragma once

// What the engine will do next: a radix heap of plain records in one vector.
//
// The clock never goes back. So an event can wait in a bucket for the highest hexadecimal digit in
// which its time differs from the clock, and for that digit's value. The lowest bucket in use holds
// the next events; when the clock comes to it, its events differ from the clock in lower digits
// only, and move to lower buckets: O(log of the number of events) moves each, without a comparison
// that a processor could mispredict. Buckets are lists that keep the order of the pushes, so events
// of one instant come in the order of their sequence. Neighbours of one instant are a run, which
// moves as a whole: ranks in step cost no more moves than one.
// Source: Ahuja, Mehlhorn, Orlin and Tarjan, J. ACM 37(2), 1990. Measured beside other heaps:
// README.md; tests/perf/queue_bench.cpp.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/sim_time.h"

namespace flopcast {

enum class EventKind : std::uint8_t {
  kernel_done,    // subject: a stream
  latency_done,   // subject: a flight
  transfer_done,  // subject: a flight
};

struct Event {
  SimTime at;
  std::uint64_t sequence;  // scheduling order: settles ties
  std::uint32_t subject;   // row of the table that `kind` names
  EventKind kind;
};
static_assert(std::is_trivially_copyable_v<Event> && sizeof(Event) == 24);

/// The sequence of an event is its ticket. The subject keeps the ticket of the one event that it
/// expects; an event with another ticket is stale and is dropped when it comes up. So cancelling
/// is forgetting the ticket, and nothing searches the queue.
using Ticket = std::uint64_t;
inline constexpr Ticket kNoTicket = 0;

class EventQueue {
 public:
  /// `at` is not before the instant of the last advance().
  Ticket push(SimTime at, EventKind kind, std::uint32_t subject) {
    std::uint32_t node = free_;
    if (node == kNone) {
      node = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      free_ = nodes_[node].next;
    }
    // Field by field: a whole Event made first would be stored in parts and loaded at once, which
    // stalls a processor for as long as the rest of a push takes.
    Event& event = nodes_[node].event;
    event.at = at;
    event.sequence = ++last_;
    event.subject = subject;
    event.kind = kind;
    nodes_[node].run_end = node;
    put(node);
    return last_;
  }

  bool empty() const { return due_.head == kNone && digits_ == 0; }
  /// Moves on to the instant of the next event, which it returns. The queue is not empty.
  SimTime advance() {
    if (due_.head == kNone) open_next_bucket();
    return now_;
  }
  /// Whether there are events at the instant of the last advance().
  bool due() const { return due_.head != kNone; }
  /// The first of those.
  Event pop() {
    const std::uint32_t node = due_.head;
    due_.head = nodes_[node].next;
    nodes_[node].next = free_;
    free_ = node;
    if (due_.head != kNone) fetch(nodes_[due_.head].next);
    return nodes_[node].event;
  }
  /// The one that pop() gives next; none: null. It is in the cache, since pop() has the one after
  /// it fetched each time.
  const Event* next_due() const { return due_.head == kNone ? nullptr : &nodes_[due_.head].event; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  static constexpr unsigned kBits = 4;  // of a digit
  static constexpr unsigned kDigits = 64 / kBits;
  static constexpr unsigned kValues = 1u << kBits;

  struct Node {
    Event event{};
    std::uint32_t next = kNone;
    std::uint32_t run_end = kNone;  // of the run that begins here
  };
  struct List {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    std::uint32_t last_run = kNone;  // its first node
  };

  void fetch(std::uint32_t node) const {
    if (node != kNone) __builtin_prefetch(&nodes_[node]);
  }

  std::uint32_t after_run(std::uint32_t node) const { return nodes_[nodes_[node].run_end].next; }

  /// Of a run, which becomes part of the run before it if that is of the same instant.
  void append(List& list, std::uint32_t node) {
    const std::uint32_t end = nodes_[node].run_end;
    nodes_[end].next = kNone;
    if (list.head == kNone) {
      list.head = node;
      list.last_run = node;
    } else {
      nodes_[list.tail].next = node;
      Node& before = nodes_[list.last_run];
      if (before.event.at == nodes_[node].event.at) {
        before.run_end = end;
      } else {
        list.last_run = node;
      }
    }
    list.tail = end;
  }

  /// Of a run.
  void put(std::uint32_t node) {
    const auto at = static_cast<std::uint64_t>(nodes_[node].event.at.picoseconds);
    const std::uint64_t differs = at ^ static_cast<std::uint64_t>(now_.picoseconds);
    if (differs == 0) return append(due_, node);
    const unsigned digit = static_cast<unsigned>(63 - std::countl_zero(differs)) / kBits;
    const unsigned value = static_cast<unsigned>(at >> (digit * kBits)) & (kValues - 1);
    append(buckets_[digit * kValues + value], node);
    values_[digit] = static_cast<std::uint16_t>(values_[digit] | 1u << value);
    digits_ = static_cast<std::uint16_t>(digits_ | 1u << digit);
  }

  void open_next_bucket() {
    const auto digit = static_cast<unsigned>(std::countr_zero(digits_));
    const auto value = static_cast<unsigned>(std::countr_zero(values_[digit]));
    values_[digit] = static_cast<std::uint16_t>(values_[digit] & ~(1u << value));
    if (values_[digit] == 0) digits_ = static_cast<std::uint16_t>(digits_ & ~(1u << digit));
    const List list = std::exchange(buckets_[digit * kValues + value], {});
    now_ = nodes_[list.head].event.at;
    for (std::uint32_t node = list.head; node != kNone; node = after_run(node)) {
      now_ = std::min(now_, nodes_[node].event.at);
    }
    for (std::uint32_t node = list.head; node != kNone;) {
      const std::uint32_t next = after_run(node);
      put(node);
      node = next;
    }
  }

  std::vector<Node> nodes_;
  std::uint32_t free_ = kNone;  // list of unused nodes
  SimTime now_;
  List due_;  // events at `now_`
  std::array<List, std::size_t{kDigits} * kValues> buckets_{};
  std::array<std::uint16_t, kDigits> values_{};  // of each digit, with events
  std::uint16_t digits_ = 0;                     // with events
  Ticket last_ = kNoTicket;
};

}  // namespace flopcast
