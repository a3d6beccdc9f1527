#pragma once

// Rows of the engine's tables. Each is its own type, so that a rank is never taken for a link.

#include <cstdint>

namespace flopcast {

enum class RankId : std::uint32_t {};
enum class GroupId : std::uint32_t {};  // a communicator: a set of ranks, or a directed pair
enum class LinkId : std::uint32_t {};   // one direction of a link
enum class ProgramId : std::uint32_t {};
enum class KernelId : std::uint32_t {};    // a row of durations
enum class TransferId : std::uint32_t {};  // a row of communication costs
enum class VariantId : std::uint32_t {};   // a row of amounts of one program
enum class EventId : std::uint32_t {};     // a stream event of one program
enum class CategoryId : std::uint16_t {};  // what time or bytes are charged to
enum class LabelId : std::uint32_t {};     // what an op is called in a timeline

inline constexpr GroupId kNoGroup{0xffffffffu};
inline constexpr VariantId kNoVariant{0xffffffffu};

template <class Id>
constexpr std::uint32_t index_of(Id id) {
  return static_cast<std::uint32_t>(id);
}

}  // namespace flopcast
