#pragma once

// Records of what ran when, appended while the engine runs and rendered afterwards.

#include <vector>

#include "sim/ids.h"
#include "sim/program.h"
#include "sim/sim_time.h"

namespace flopcast {

/// Activity of one stream. For collectives and recvs, [begin, start) is waiting for others and
/// [start, end) the transfer; otherwise start equals begin.
struct Span {
  RankId rank{};
  std::uint16_t stream = 0;
  OpKind kind{};
  CategoryId category{};
  LabelId label{};
  SimTime begin{};
  SimTime start{};
  SimTime end{};
};

/// Memory of a rank after a change.
struct MemorySample {
  RankId rank{};
  SimTime at{};
  std::int64_t bytes = 0;
};

/// Load of a link from this moment on, in bytes/s.
struct LinkSample {
  LinkId link{};
  SimTime at{};
  double rate = 0;
};

/// Where the engine writes; one per run. Spans come in order of their ends.
class TimelineSink {
 public:
  virtual ~TimelineSink() = default;
  virtual void add(const Span& span) = 0;
  virtual void add(const MemorySample& sample) = 0;
  virtual void add(const LinkSample& sample) = 0;
};

/// Keeps everything in memory.
class TimelineBuffer : public TimelineSink {
 public:
  void add(const Span& span) override { spans.push_back(span); }
  void add(const MemorySample& sample) override { memory.push_back(sample); }
  void add(const LinkSample& sample) override { links.push_back(sample); }

  std::vector<Span> spans;
  std::vector<MemorySample> memory;
  std::vector<LinkSample> links;
};

}  // namespace flopcast
