#pragma once

// Priority queues that the engine could use, with the interface of EventQueue: to be measured
// beside it on the same streams of events.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/event_queue.h"

namespace flopcast::bench {

inline bool earlier(const Event& a, const Event& b) {
  return a.at != b.at ? a.at < b.at : a.sequence < b.sequence;
}

/// The standard library's binary heap.
class BinaryHeap {
 public:
  void push(const Event& event) {
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  bool empty() const { return heap_.empty(); }
  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event first = heap_.back();
    heap_.pop_back();
    return first;
  }

 private:
  static bool later(const Event& a, const Event& b) { return earlier(b, a); }
  std::vector<Event> heap_;
};

/// An implicit heap with Ways children per node.
template <std::size_t Ways>
class WayHeap {
 public:
  void push(const Event& event) {
    std::size_t hole = heap_.size();
    heap_.push_back(event);
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / Ways;
      if (!earlier(event, heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = event;
  }
  bool empty() const { return heap_.empty(); }
  Event pop() {
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return first;
    std::size_t hole = 0;
    for (std::size_t child = 1; child < heap_.size(); child = hole * Ways + 1) {
      const std::size_t end = std::min(child + Ways, heap_.size());
      std::size_t best = child;
      for (std::size_t i = child + 1; i < end; ++i)
        best = earlier(heap_[i], heap_[best]) ? i : best;
      if (!earlier(heap_[best], last)) break;
      heap_[hole] = heap_[best];
      hole = best;
    }
    heap_[hole] = last;
    return first;
  }

 private:
  std::vector<Event> heap_;
};

/// A pairing heap in one vector of nodes.
class PairingHeap {
 public:
  void push(const Event& event) {
    std::uint32_t node = free_;
    if (node == kNone) {
      node = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({event});
    } else {
      free_ = nodes_[node].next;
      nodes_[node] = {event};
    }
    root_ = root_ == kNone ? node : meld(root_, node);
  }
  bool empty() const { return root_ == kNone; }
  Event pop() {
    const std::uint32_t top = root_;
    root_ = meld_all(nodes_[top].child);
    nodes_[top].next = free_;
    free_ = top;
    return nodes_[top].event;
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;
  struct Node {
    Event event;
    std::uint32_t child = kNone;
    std::uint32_t next = kNone;
  };
  std::uint32_t meld(std::uint32_t a, std::uint32_t b) {
    if (earlier(nodes_[b].event, nodes_[a].event)) std::swap(a, b);
    nodes_[b].next = nodes_[a].child;
    nodes_[a].child = b;
    return a;
  }
  std::uint32_t meld_all(std::uint32_t first) {
    pairs_.clear();
    while (first != kNone) {
      const std::uint32_t second = nodes_[first].next;
      if (second == kNone) {
        pairs_.push_back(first);
        break;
      }
      const std::uint32_t rest = nodes_[second].next;
      pairs_.push_back(meld(first, second));
      first = rest;
    }
    std::uint32_t all = kNone;
    while (!pairs_.empty()) {
      all = all == kNone ? pairs_.back() : meld(pairs_.back(), all);
      pairs_.pop_back();
    }
    return all;
  }

  std::vector<Node> nodes_;
  std::vector<std::uint32_t> pairs_;
  std::uint32_t root_ = kNone;
  std::uint32_t free_ = kNone;
};

/// A radix heap: what is popped never goes back in time, so an event lies in a bucket for the
/// highest digit (of Bits bits) in which it differs from the last time popped, and for that digit.
/// Buckets keep the order of their pushes.
template <unsigned Bits>
class RadixHeap {
 public:
  void push(const Event& event) {
    ++size_;
    put(event);
  }
  bool empty() const { return size_ == 0; }
  Event pop() {
    if (next_ == now_.size()) refill();
    --size_;
    return now_[next_++];
  }

 private:
  static constexpr unsigned kDigits = (63 + Bits - 1) / Bits;
  static constexpr unsigned kWays = 1U << Bits;

  void put(const Event& event) {
    const auto at = static_cast<std::uint64_t>(event.at.picoseconds);
    const std::uint64_t differs = at ^ last_;
    if (differs == 0) {
      now_.push_back(event);
      return;
    }
    const auto digit = static_cast<unsigned>(63 - std::countl_zero(differs)) / Bits;
    const auto value = static_cast<unsigned>(at >> (digit * Bits)) & (kWays - 1);
    buckets_[digit * kWays + value].push_back(event);
    filled_[digit] |= std::uint64_t{1} << value;
    digits_ |= std::uint64_t{1} << digit;
  }
  void refill() {
    now_.clear();
    next_ = 0;
    const auto digit = static_cast<unsigned>(std::countr_zero(digits_));
    const auto value = static_cast<unsigned>(std::countr_zero(filled_[digit]));
    filled_[digit] &= filled_[digit] - 1;
    if (filled_[digit] == 0) digits_ &= digits_ - 1;
    work_.swap(buckets_[digit * kWays + value]);
    SimTime first = work_.front().at;
    for (const Event& event : work_) first = std::min(first, event.at);
    last_ = static_cast<std::uint64_t>(first.picoseconds);
    for (const Event& event : work_) put(event);
    work_.clear();
  }

  std::array<std::vector<Event>, kDigits * kWays> buckets_;
  std::array<std::uint64_t, kDigits> filled_{};  // values of this digit with events
  std::uint64_t digits_ = 0;                     // digits with events
  std::vector<Event> now_;                       // due at last_
  std::size_t next_ = 0;
  std::vector<Event> work_;
  std::uint64_t last_ = 0;
  std::size_t size_ = 0;
};

}  // namespace flopcast::bench
