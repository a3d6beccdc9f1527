// The last words of a run in which streams wait for one another: who waits for what.

#include <fmt/format.h>

#include <iterator>

#include "sim/check.h"
#include "sim/engine_state.h"

namespace flopcast {
namespace {

/// A name of one of the workload's lists, or the row where the list is shorter.
std::string name_of(const std::vector<std::string>& names, std::size_t row) {
  return row < names.size() ? names[row] : fmt::format("#{}", row);
}

}  // namespace

std::string EngineState::describe(const StreamRow& row) const {
  const Workload& workload = tables_.source;
  const Op& op = op_of(row);
  const auto group = [&] { return index_of(tables_.group_of(row.rank, op.slot)); };
  const std::string label = name_of(workload.labels, index_of(op.label));
  switch (row.state) {
    case StreamState::joining:
      return fmt::format("collective '{}' in group '{}': {} of {} members have arrived", label,
                         workload.groups[group()].name, gatherings_[group()].arrived,
                         tables_.group_arrivals[group()]);
    case StreamState::receiving:
      return fmt::format("recv '{}' in group '{}': message {} was not sent", label,
                         workload.groups[group()].name, op.tag);
    case StreamState::blocked:
      return fmt::format("wait for event {} of stream '{}'", op.row,
                         name_of(workload.stream_names, op.slot));
    case StreamState::computing: return fmt::format("compute '{}' gets no share of the GPU", label);
    case StreamState::transferring:
    case StreamState::ready:
    case StreamState::finished: break;
  }
  return "not waiting";
}

void EngineState::abort_deadlocked() const {
  constexpr std::size_t kListed = 40;
  std::string text = fmt::format("deadlock: {} streams wait for ever\n", unfinished_);
  std::size_t listed = 0;
  for (const StreamRow& row : streams_) {
    if (row.state == StreamState::finished) continue;
    if (++listed > kListed) {
      text += "  ...\n";
      break;
    }
    fmt::format_to(std::back_inserter(text), "  rank '{}', stream '{}': {}\n",
                   tables_.source.ranks[index_of(row.rank)].name,
                   name_of(tables_.source.stream_names, row.number), describe(row));
  }
  detail::check_failed(__FILE__, __LINE__, "every stream reached its end", text.c_str());
}

}  // namespace flopcast
