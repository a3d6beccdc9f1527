// Nanoseconds per event (one push and one pop) of priority queues, on the streams of events of real
// runs. `queue_bench <scale>`: 1 is a smoke run.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <vector>

#include "bench_workloads.h"
#include "queue_candidates.h"
#include "sim/engine.h"

using namespace flopcast;
using namespace flopcast::bench;

namespace {

/// The engine's own queue.
class EngineQueue {
 public:
  void push(const Event& event) { queue_.push(event.at, event.kind, event.subject); }
  bool empty() const { return queue_.empty(); }
  Event pop() {
    queue_.advance();
    return queue_.pop();
  }

 private:
  EventQueue queue_;
};

/// Pushes in the order of the run; `pops` events come out before each.
struct Stream {
  std::vector<Event> pushes;
  std::vector<std::uint32_t> pops;
  std::size_t most = 0;  // events in the queue
};

/// A span is an event pushed at its start and due at its end.
Stream stream_of(const Workload& workload) {
  TimelineBuffer timeline;
  run(workload, &timeline);
  std::vector<Span>& spans = timeline.spans;
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.start < b.start; });
  Stream stream;
  std::size_t size = 0;
  std::vector<Event> due;
  for (const Span& span : spans) {
    std::uint32_t pops = 0;
    while (!due.empty() && due.front().at <= span.start) {
      std::pop_heap(due.begin(), due.end(),
                    [](const Event& a, const Event& b) { return earlier(b, a); });
      due.pop_back();
      ++pops;
    }
    const Event event{.at = span.end,
                      .sequence = stream.pushes.size() + 1,
                      .subject = 0,
                      .kind = EventKind::kernel_done};
    due.push_back(event);
    std::push_heap(due.begin(), due.end(),
                   [](const Event& a, const Event& b) { return earlier(b, a); });
    stream.pushes.push_back(event);
    stream.pops.push_back(pops);
    size = std::max(size, due.size());
  }
  stream.most = size;
  return stream;
}

template <class Queue>
double nanoseconds_per_event(const Stream& stream) {
  constexpr int kRuns = 5;
  double best = 1e300;
  std::uint64_t sum = 0;
  for (int i = 0; i < kRuns; ++i) {
    Queue queue;
    const std::clock_t begin = std::clock();
    for (std::size_t p = 0; p < stream.pushes.size(); ++p) {
      for (std::uint32_t pop = 0; pop < stream.pops[p]; ++pop) sum += queue.pop().sequence;
      queue.push(stream.pushes[p]);
    }
    while (!queue.empty()) sum += queue.pop().sequence;
    const auto took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    best = std::min(best, took);
  }
  const auto events = stream.pushes.size();
  if (sum != kRuns * (events * (events + 1) / 2)) std::abort();  // every event came out once
  return best * 1e9 / static_cast<double>(events);
}

void measure(std::string_view name, const Workload& workload) {
  const Stream stream = stream_of(workload);
  const std::array figures{
      nanoseconds_per_event<BinaryHeap>(stream),   nanoseconds_per_event<WayHeap<4>>(stream),
      nanoseconds_per_event<WayHeap<8>>(stream),   nanoseconds_per_event<PairingHeap>(stream),
      nanoseconds_per_event<RadixHeap<1>>(stream), nanoseconds_per_event<RadixHeap<4>>(stream),
      nanoseconds_per_event<EngineQueue>(stream)};
  fmt::print("{:<30} {:>9} {:>7} {:>7.1f}\n", name, stream.pushes.size(), stream.most,
             fmt::join(figures, " "));
}

}  // namespace

int main(int argc, char** argv) {
  const int scale = argc > 1 ? std::atoi(argv[1]) : 20;
  const auto steps = static_cast<std::size_t>(std::max(scale, 1)) * 100;
  const std::array names{"binary", "4-ary", "8-ary", "pairing", "radix2", "radix16", "engine"};
  fmt::print("{:<30} {:>9} {:>7} {:>7}\n", "ns per push and pop", "events", "most",
             fmt::join(names, " "));
  measure("compute", compute_only(steps));
  measure("tensor parallel, 64", tensor_parallel(64, steps, false));
  measure("tensor parallel, 4096", tensor_parallel(4096, steps / 20, false));
  measure("tensor parallel, 4096 in step", tensor_parallel(4096, steps / 20, true));
  measure("tensor parallel, 32768", tensor_parallel(32768, steps / 100, false));
  measure("overlapped, own links", overlapped(steps, false));
  measure("overlapped, shared link", overlapped(steps, true));
  measure("pipeline", pipeline(steps));
}
