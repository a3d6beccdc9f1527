#pragma once

// What one role executes. A role is the set of ranks that run the same code, such as one pipeline
// stage; they share a Program. As on a GPU, each stream is an ordered list of operations, streams
// run side by side, and `record`/`wait` on events order one stream after another.

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/ids.h"
#include "sim/units.h"

namespace flopcast {

enum class OpKind : std::uint8_t {
  compute,     // runs a kernel for its duration
  collective,  // waits for every member of the group, then transfers
  send,        // starts the transfer at once; the stream goes on when it has ended
  recv,        // waits until the matching message has arrived
  record,      // marks an event as done
  wait,        // blocks the stream until the event is recorded
  allocate,    // adds bytes to a memory pool
  release,     // takes them away
};

struct Op {
  OpKind kind;
  CategoryId category{};   // compute, collective, send, recv: what the time is charged to;
                           // allocate, release: the memory pool
  std::uint16_t slot = 0;  // collective, send, recv: which of the rank's groups
  std::uint32_t row = 0;   // compute: KernelId; collective, send: TransferId; record, wait: EventId
  std::uint32_t tag = 0;   // send, recv: messages of one group match by tag;
                           // compute, allocate, release: place in the rank's variant, from 1;
                           // 0: row and size are those of the op
  LabelId label{};         // name in the timeline
  std::int64_t size = 0;   // allocate, release: bytes
};

struct Program {
  std::vector<std::vector<Op>> streams;  // by stream number; names in Workload::stream_names
  std::uint32_t events = 0;              // number of EventIds in use; each is recorded once a run
};

/// Amounts of a rank whose program others run with other amounts.
struct Variant {
  std::vector<std::uint32_t> rows;  // of compute ops, by Op::tag - 1
  std::vector<std::int64_t> sizes;  // of allocate and release
};

/// Where amounts go that vary from rank to rank.
enum class Amounts : std::uint8_t {
  in_ops,      // the program is one rank's own
  in_variant,  // the program is the first of several that differ in nothing else
  alone,       // it is one of the others: no op is kept
};

/// Appends ops to the streams of one program.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::size_t streams, Amounts amounts = Amounts::in_ops);

  bool keeps_ops() const { return amounts_ != Amounts::alone; }

  void compute(std::size_t stream, KernelId kernel, CategoryId category, LabelId label);
  /// The kernel varies from rank to rank.
  void compute_varying(std::size_t stream, KernelId kernel, CategoryId category, LabelId label);
  void collective(std::size_t stream, std::uint16_t slot, TransferId transfer, CategoryId category,
                  LabelId label);
  void send(std::size_t stream, std::uint16_t slot, std::uint32_t tag, TransferId transfer,
            CategoryId category, LabelId label);
  void recv(std::size_t stream, std::uint16_t slot, std::uint32_t tag, CategoryId category,
            LabelId label);
  /// An event that is done when all that `stream` holds so far is done.
  EventId record(std::size_t stream);
  void wait(std::size_t stream, EventId event);
  /// `later` goes on only when all that `earlier` holds so far is done.
  void order(std::size_t earlier, std::size_t later);
  void allocate(std::size_t stream, CategoryId pool, std::int64_t bytes);
  void release(std::size_t stream, CategoryId pool, std::int64_t bytes);
  void allocate_varying(std::size_t stream, CategoryId pool, std::int64_t bytes);
  void release_varying(std::size_t stream, CategoryId pool, std::int64_t bytes);

  Variant take_variant() { return std::move(variant_); }
  Program finish() &&;

 private:
  void push(std::size_t stream, const Op& op);
  void push_varying(std::size_t stream, Op op);

  Amounts amounts_;
  Program program_;
  Variant variant_;
};

}  // namespace flopcast
