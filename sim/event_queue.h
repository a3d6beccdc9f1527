#pragma once

// What the engine will do next: a binary heap of plain records in one vector.

#include <algorithm>
#include <cstdint>
#include <type_traits>
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
  Ticket push(SimTime at, EventKind kind, std::uint32_t subject) {
    heap_.push_back({at, ++last_, subject, kind});
    std::push_heap(heap_.begin(), heap_.end(), later);
    return last_;
  }

  bool empty() const { return heap_.empty(); }
  SimTime next_at() const { return heap_.empty() ? kNever : heap_.front().at; }

  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event first = heap_.back();
    heap_.pop_back();
    return first;
  }

 private:
  static bool later(const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
  }

  std::vector<Event> heap_;
  Ticket last_ = kNoTicket;
};

}  // namespace flopcast
