#include "sim/rates.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "sim/check.h"

namespace flopcast {

double rate_when_full(double capacity, double weight) {
  const auto bits = std::bit_cast<std::uint64_t>(capacity / weight);
  return std::bit_cast<double>(bits & ~std::uint64_t{0xfff});
}

RateSolver::RateSolver(std::span<const Link> links) : links_(links.size()) {
  for (std::size_t i = 0; i < links.size(); ++i) {
    FLOPCAST_CHECK(links[i].capacity.value > 0, "a link has capacity");
    links_[i].capacity = links[i].capacity.value;
  }
}

void RateSolver::start(ActivityId id, BytesPerSecond cap, std::span<const LinkLoad> loads) {
  const std::uint32_t index = index_of(id);
  if (index >= activities_.size()) activities_.resize(index + 1);
  ActivityRow& activity = activities_[index];
  FLOPCAST_CHECK(!activity.running, "an activity starts once");
  FLOPCAST_CHECK(cap.value > 0, "an activity can make progress");
  activity.cap = cap.value;
  activity.loads = loads;
  activity.running = true;
  activity.before = 0;
  const bool fits = has_room(activity);
  activity.rate = fits ? cap.value : 0;
  list_activity(index);
  for (const LinkLoad& load : loads) {
    LinkRow& link = links_[index_of(load.link)];
    link.flows.push_back({index, load.weight});
    link.load += load.weight * activity.rate;
    list_link(index_of(load.link));
    if (!fits) mark_dirty(index_of(load.link));
  }
}

void RateSolver::stop(ActivityId id) {
  const std::uint32_t index = index_of(id);
  ActivityRow& activity = activities_[index];
  FLOPCAST_CHECK(activity.running, "an activity stops once");
  activity.running = false;
  activity.rate = 0;
  for (const LinkLoad& load : activity.loads) {
    LinkRow& link = links_[index_of(load.link)];
    const auto flow = std::find_if(link.flows.begin(), link.flows.end(),
                                   [index](const Flow& f) { return f.activity == index; });
    *flow = link.flows.back();
    link.flows.pop_back();
    list_link(index_of(load.link));
    if (link.full) {
      mark_dirty(index_of(load.link));  // its load is summed when its component is solved
    } else {
      update_load(link);
    }
  }
}

void RateSolver::solve() {
  if (!dirty_links_.empty()) {
    collect_component();
    fill_component();
  }
  changed_activities_.clear();
  for (const std::uint32_t index : pending_activities_) {
    ActivityRow& activity = activities_[index];
    activity.listed = false;
    if (activity.running && activity.rate != activity.before) {
      changed_activities_.push_back(ActivityId{index});
    }
    activity.before = activity.rate;
  }
  pending_activities_.clear();
  changed_links_.clear();
  for (const std::uint32_t index : pending_links_) {
    links_[index].listed = false;
    changed_links_.push_back(LinkId{index});
  }
  pending_links_.clear();
}

/// Whether the activity at its cap leaves every other rate as it is.
bool RateSolver::has_room(const ActivityRow& activity) const {
  return std::all_of(activity.loads.begin(), activity.loads.end(), [&](const LinkLoad& load) {
    const LinkRow& link = links_[index_of(load.link)];
    return link.load + load.weight * activity.cap <= link.capacity;
  });
}

/// Sums anew instead of subtracting, so that rounding errors do not add up over a run.
void RateSolver::update_load(LinkRow& link) {
  link.load = 0;
  for (const Flow& flow : link.flows) link.load += flow.weight * activities_[flow.activity].rate;
}

void RateSolver::mark_dirty(std::uint32_t link) {
  if (links_[link].dirty) return;
  links_[link].dirty = true;
  dirty_links_.push_back(link);
}

void RateSolver::list_link(std::uint32_t link) {
  if (links_[link].listed) return;
  links_[link].listed = true;
  pending_links_.push_back(link);
}

void RateSolver::list_activity(std::uint32_t activity) {
  if (activities_[activity].listed) return;
  activities_[activity].listed = true;
  pending_activities_.push_back(activity);
}

/// All that the dirty links reach. Several components may be dirty at once; they are filled
/// together, which changes nothing, since they share no link.
void RateSolver::collect_component() {
  ++visit_;
  component_activities_.clear();
  component_links_.swap(dirty_links_);
  dirty_links_.clear();
  for (const std::uint32_t link : component_links_) {
    links_[link].visit = visit_;
    links_[link].dirty = false;
  }
  for (std::size_t i = 0; i < component_links_.size(); ++i) {
    for (const Flow& flow : links_[component_links_[i]].flows) {
      ActivityRow& activity = activities_[flow.activity];
      if (activity.visit == visit_) continue;
      activity.visit = visit_;
      component_activities_.push_back(flow.activity);
      for (const LinkLoad& load : activity.loads) {
        LinkRow& link = links_[index_of(load.link)];
        if (link.visit == visit_) continue;
        link.visit = visit_;
        component_links_.push_back(index_of(load.link));
      }
    }
  }
}

void RateSolver::fill_component() {
  for (const std::uint32_t index : component_activities_) activities_[index].fixed = false;
  std::sort(component_activities_.begin(), component_activities_.end(),
            [this](std::uint32_t a, std::uint32_t b) {
              const double cap_a = activities_[a].cap;
              const double cap_b = activities_[b].cap;
              return cap_a != cap_b ? cap_a < cap_b : a < b;
            });
  levels_.clear();
  for (const std::uint32_t index : component_links_) {
    links_[index].full = false;
    links_[index].stale = false;
    double level = 0;
    if (compute_level(index, 0, level)) levels_.push_back({level, index});
  }
  std::make_heap(levels_.begin(), levels_.end(), higher);

  double water = 0;  // the common rate of all that is not fixed
  for (const std::uint32_t index : component_activities_) {
    // A stale level is too low, never too high: only one below the cap has to be looked at again.
    while (!activities_[index].fixed && !levels_.empty() &&
           levels_.front().rate < activities_[index].cap) {
      if (tighten_lowest_level(water)) continue;
      water = levels_.front().rate;
      LinkRow& link = links_[levels_.front().link];
      link.full = true;
      for (const Flow& flow : link.flows) {
        if (!activities_[flow.activity].fixed) fix(flow.activity, water);
      }
    }
    if (!activities_[index].fixed) {
      water = std::max(water, activities_[index].cap);
      fix(index, activities_[index].cap);
    }
  }
  for (const std::uint32_t index : component_links_) {
    const double before = links_[index].load;
    update_load(links_[index]);
    if (links_[index].load != before) list_link(index);
  }
}

/// The rate at which the link is full; false where nothing on it can rise any more. The water level
/// never falls: `at_least` keeps rounding from taking a rate to zero.
bool RateSolver::compute_level(std::uint32_t index, double at_least, double& level) const {
  const LinkRow& link = links_[index];
  double room = link.capacity;
  double weight = 0;
  for (const Flow& flow : link.flows) {
    const ActivityRow& activity = activities_[flow.activity];
    if (activity.fixed) {
      room -= flow.weight * activity.rate;
    } else {
      weight += flow.weight;
    }
  }
  level = std::max(rate_when_full(room, weight), at_least);
  return weight > 0;
}

/// Brings the lowest level up to date; false where it already is.
bool RateSolver::tighten_lowest_level(double water) {
  const std::uint32_t index = levels_.front().link;
  if (!links_[index].stale) return false;
  links_[index].stale = false;
  std::pop_heap(levels_.begin(), levels_.end(), higher);
  double level = 0;
  if (compute_level(index, water, level)) {
    levels_.back().rate = level;
    std::push_heap(levels_.begin(), levels_.end(), higher);
  } else {
    levels_.pop_back();
  }
  return true;
}

void RateSolver::fix(std::uint32_t index, double rate) {
  ActivityRow& activity = activities_[index];
  activity.fixed = true;
  if (activity.rate != rate) {
    activity.rate = rate;
    list_activity(index);
  }
  for (const LinkLoad& load : activity.loads) links_[index_of(load.link)].stale = true;
}

}  // namespace flopcast
