#pragma once

// How activities that run side by side share links: max-min fair rates by progressive filling.
//
// An activity makes progress at a rate x, at most its cap, and puts weight * x on each link that it
// loads. The rates of all activities rise together from zero; an activity stops where it meets its
// cap or where a link that it loads is full. So in the end every activity is held by its own cap or
// by a full link on which no other activity is faster.
// Source: Bertsekas and Gallager, Data Networks, 2nd ed. 1992, section 6.5.2, with caps and
// weights.
//
// A start or stop that finds room on all of its links, or leaves no full link, changes no other
// rate: cost O(flows on these links). Any other change solves the connected component of
// activities and links that it touches: O(E log E) for E loads where few links tie.

#include <cstdint>
#include <span>
#include <vector>

#include "sim/ids.h"
#include "sim/units.h"
#include "sim/workload.h"

namespace flopcast {

enum class ActivityId : std::uint32_t {
};  // a row of the solver; the caller chooses and reuses them

class RateSolver {
 public:
  explicit RateSolver(std::span<const Link> links);

  /// Activity `id`, which must not run, runs from now on. `loads` name each link once, with
  /// positive weights, and stay where they are until the activity stops.
  void start(ActivityId id, BytesPerSecond cap, std::span<const LinkLoad> loads);
  void stop(ActivityId id);

  /// Brings rates and loads up to date after any number of starts and stops.
  void solve();

  BytesPerSecond rate(ActivityId id) const { return {activities_[index_of(id)].rate}; }
  BytesPerSecond load(LinkId id) const { return {links_[index_of(id)].load}; }
  /// What the last solve changed since the one before; activities that started are among them.
  std::span<const ActivityId> changed_activities() const { return changed_activities_; }
  std::span<const LinkId> changed_links() const { return changed_links_; }

 private:
  struct Flow {
    std::uint32_t activity;
    double weight;
  };
  struct LinkRow {
    double capacity = 0;
    double load = 0;
    std::uint32_t visit = 0;  // equals visit_ where the component in work holds it
    bool full = false;        // it holds some activity below its cap
    bool dirty = false;       // its component is to be solved
    bool stale = false;       // an activity on it was fixed since its level was computed
    bool listed = false;      // in pending_links_
    std::vector<Flow> flows;
  };
  struct ActivityRow {
    double cap = 0;
    double rate = 0;
    double before = 0;  // rate at the last solve
    std::uint32_t visit = 0;
    bool running = false;
    bool fixed = false;   // its rate is found, within the component in work
    bool listed = false;  // in pending_activities_
    std::span<const LinkLoad> loads;
  };
  struct Level {  // at which a link is full if all that is not fixed rises together
    double rate;
    std::uint32_t link;
  };

  static bool higher(const Level& a, const Level& b) {
    return a.rate != b.rate ? a.rate > b.rate : a.link > b.link;
  }
  bool has_room(const ActivityRow& activity) const;
  void update_load(LinkRow& link);
  void mark_dirty(std::uint32_t link);
  void list_link(std::uint32_t link);
  void list_activity(std::uint32_t activity);
  void collect_component();
  void fill_component();
  bool compute_level(std::uint32_t link, double at_least, double& level) const;
  void fix(std::uint32_t activity, double rate);
  bool tighten_lowest_level(double water);

  std::vector<LinkRow> links_;
  std::vector<ActivityRow> activities_;
  std::uint32_t visit_ = 0;

  std::vector<std::uint32_t> dirty_links_;
  std::vector<std::uint32_t> pending_links_;
  std::vector<std::uint32_t> pending_activities_;
  std::vector<ActivityId> changed_activities_;
  std::vector<LinkId> changed_links_;
  std::vector<std::uint32_t> component_links_;  // all dirty components of one solve
  std::vector<std::uint32_t> component_activities_;
  std::vector<Level> levels_;  // a heap, lowest first
};

/// Of a link, if all that loads it, with that weight in all, goes at one rate: capacity / weight to
/// 40 bits, down. Equal links sum equal loads in other orders; without the noise of their last bits
/// equal flows keep equal rates, end in one instant, and cost one solve instead of many.
double rate_when_full(double capacity, double weight);

inline constexpr std::uint32_t index_of(ActivityId id) { return static_cast<std::uint32_t>(id); }

}  // namespace flopcast
