#include "schedule/forecast.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace um {
namespace {

constexpr std::int64_t full_pace = 1000;

constexpr std::size_t index_of(lane l) {
  return static_cast<std::size_t>(l);
}

// Mirrors speed_beside in simulator/execute.cpp. Full pace if the machine has no rate for both directions.
std::int64_t concurrent_pace(std::uint64_t own, std::uint64_t other, std::uint64_t both) {
  const std::uint64_t share = std::max(both / 2, both - std::min(other, both));
  if (both == 0 || share >= own) return full_pace;
  return std::clamp<std::int64_t>(
      static_cast<std::int64_t>(share / std::max<std::uint64_t>(own / full_pace, 1)), 1, full_pace);
}

// Time until all lanes have finished. Paces: speed of copies while both directions are busy, in thousandths.
nanoseconds simulate_lanes(const lane_steps& lanes, std::int64_t pace_in, std::int64_t pace_out) {
  constexpr nanoseconds never = std::numeric_limits<nanoseconds>::max();
  std::array<std::size_t, lane_count> next{};
  std::array<bool, lane_count> busy{};
  std::array<nanoseconds, lane_count> left{};
  // A lane runs its steps in order, so its next step tells which events have ended.
  const auto has_ended = [&](std::size_t l, std::int32_t e) {
    return e < 0 || next[l] == lanes[l].size() || lanes[l][next[l]].event > static_cast<std::uint32_t>(e);
  };
  nanoseconds now = 0;
  for (;;) {
    for (std::size_t l = 0; l < lane_count; ++l) {
      if (busy[l] || next[l] == lanes[l].size()) continue;
      const lane_step& s = lanes[l][next[l]];
      if (!has_ended(0, s.waits_for[0]) || !has_ended(1, s.waits_for[1]) || !has_ended(2, s.waits_for[2]))
        continue;
      busy[l] = true;
      left[l] = s.time_alone;
    }
    std::array<std::int64_t, lane_count> pace{};
    std::array<nanoseconds, lane_count> wait{};
    const bool both = busy[index_of(lane::to_device)] && busy[index_of(lane::to_host)];
    nanoseconds passed = never;
    for (std::size_t l = 0; l < lane_count; ++l) {
      pace[l] = !both || l == index_of(lane::compute) ? full_pace
                : l == index_of(lane::to_device)      ? pace_in
                                                      : pace_out;
      wait[l] = !busy[l]               ? never
                : pace[l] == full_pace ? left[l]
                                       : (left[l] * full_pace + pace[l] - 1) / pace[l];
      passed = std::min(passed, wait[l]);
    }
    if (passed == never) return now;
    now += passed;
    for (std::size_t l = 0; l < lane_count; ++l) {
      if (!busy[l]) continue;
      left[l] -= pace[l] == full_pace ? passed : passed * pace[l] / full_pace;
      if (wait[l] > passed) continue;
      busy[l] = false;
      ++next[l];
    }
  }
}

}  // namespace

lane_simulator::lane_simulator(const event_costs& costs) : costs_(costs) {
  const auto in = costs.target.link_to_device_bytes_per_s, out = costs.target.link_to_host_bytes_per_s;
  pace_to_device_ = concurrent_pace(in, out, costs.target.link_both_bytes_per_s);
  pace_to_host_ = concurrent_pace(out, in, costs.target.link_both_bytes_per_s);
}

lane_totals lane_simulator::simulate(std::span<const event> events, const device_residency& stays,
                                     byte_count peak) {
  lane_totals found;
  for (auto& l : lanes_) l.clear();
  if (!stays.has_copies()) {  // without copies nothing waits
    for (const event& e : events) {
      if (e.kind != event_kind::compute) continue;
      found.time += costs_.time_of_compute(e);
      if (e.is_recompute) found.recompute_time += costs_.time_of_compute(e);
    }
    return found;
  }
  record_releases(stays);
  make_steps(events, stays, peak, found);
  found.time = simulate_lanes(lanes_, pace_to_device_, pace_to_host_);
  return found;
}

nanoseconds lane_simulator::time_without_copies_of(part_id p) {
  std::vector<std::pair<lane_step*, nanoseconds>> freed;
  for (const lane l : {lane::to_device, lane::to_host}) {
    for (lane_step& s : lanes_[index_of(l)]) {
      if (s.copied_part == p) freed.emplace_back(&s, std::exchange(s.time_alone, 0));
    }
  }
  const nanoseconds time = simulate_lanes(lanes_, pace_to_device_, pace_to_host_);
  for (const auto& [step, alone] : freed) step->time_alone = alone;
  return time;
}

void lane_simulator::record_releases(const device_residency& stays) {
  const std::size_t count = stays.live_bytes().size();
  released_bytes_.assign(count, 0);
  releasers_.assign(count, {-1, -1, -1});
  for (const departure& d : stays.departures()) {
    released_bytes_[d.end_event - 1] += costs_.parts[d.part].bytes;
    merge_latest(releasers_[d.end_event - 1], d.last_touches);
  }
  for (std::size_t i = 1; i < count; ++i) {
    released_bytes_[i] += released_bytes_[i - 1];
    merge_latest(releasers_[i], releasers_[i - 1]);
  }
}

// An allocation waits for releases, in order, until enough memory is free for it in an arena of `peak` bytes.
void lane_simulator::wait_for_memory(std::uint32_t at, const device_residency& stays, byte_count peak,
                                     last_events& after) const {
  if (at == 0 || !stays.takes_memory(at)) return;
  if (waits_ == memory_waits::for_all) return merge_latest(after, releasers_[at - 1]);
  const byte_count spare = peak - stays.live_bytes()[at];
  if (released_bytes_[at - 1] <= spare) return;
  const byte_count needed = released_bytes_[at - 1] - spare;
  const auto releaser = std::lower_bound(released_bytes_.begin(), released_bytes_.begin() + at, needed);
  merge_latest(after, releasers_[static_cast<std::size_t>(releaser - released_bytes_.begin())]);
}

void lane_simulator::make_steps(std::span<const event> events, const device_residency& stays, byte_count peak,
                                lane_totals& found) {
  is_copied_.assign(costs_.parts.size(), 0);
  is_home_valid_.resize(costs_.parts.size());
  users_on_device_.resize(costs_.parts.size());
  users_on_host_.resize(costs_.parts.size());
  for (const event& e : events) {
    if (e.kind != event_kind::prefetch && e.kind != event_kind::evict) continue;
    is_copied_[e.subject] = 1;
    is_home_valid_[e.subject] = costs_.parts[e.subject].persists ? 1 : 0;
    users_on_device_[e.subject] = users_on_host_[e.subject] = {};
  }
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    const event& e = events[i];
    lane_step s{i, 0, 0, {-1, -1, -1}};
    const auto reads = [&](copy_users& u, lane l) {
      merge_latest(s.waits_for, u.last_writes);
      u.last_reads[index_of(l)] = static_cast<std::int32_t>(i);
    };
    const auto writes = [&](copy_users& u, lane l) {
      merge_latest(s.waits_for, u.last_reads);
      merge_latest(s.waits_for, u.last_writes);
      u.last_writes[index_of(l)] = static_cast<std::int32_t>(i);
    };
    lane where = lane::compute;
    if (e.kind == event_kind::discard) {
      is_home_valid_[e.subject] = 0;
      continue;
    }
    if (e.kind == event_kind::compute) {
      s.time_alone = costs_.time_of_compute(e);
      if (e.is_recompute) found.recompute_time += s.time_alone;
      for (const touched_part& x : costs_.touches_of(e)) {
        if (is_copied_[x.part] == 0) continue;  // only kernels use it, and one lane runs in order anyway
        x.mode == access_mode::read ? reads(users_on_device_[x.part], where)
                                    : writes(users_on_device_[x.part], where);
        if (x.mode != access_mode::read) is_home_valid_[x.part] = 0;
      }
    } else {
      const planned_part& part = costs_.parts[e.subject];
      const bool in = e.kind == event_kind::prefetch;
      if (!in && is_home_valid_[e.subject] != 0) continue;
      where = in ? lane::to_device : lane::to_host;
      (in ? found.bytes_to_device : found.bytes_to_host) += part.bytes;
      ++found.copy_count;
      s.time_alone = in ? part.copy_to_device : part.copy_to_host;
      s.copied_part = e.subject;
      reads(in ? users_on_host_[e.subject] : users_on_device_[e.subject], where);
      writes(in ? users_on_device_[e.subject] : users_on_host_[e.subject], where);
      is_home_valid_[e.subject] = 1;
    }
    wait_for_memory(i, stays, peak, s.waits_for);
    s.waits_for[index_of(where)] = -1;
    lanes_[index_of(where)].push_back(s);
  }
}

prediction forecaster::forecast_memory(std::span<const event> events, const std::vector<bool>& staged) {
  prediction found;
  found.peak = residency_.replay(events, staged);
  const auto live = residency_.live_bytes();
  found.peak_event = static_cast<std::uint32_t>(std::ranges::find(live, found.peak) - live.begin());
  return found;
}

prediction forecaster::forecast(std::span<const event> events, const std::vector<bool>& staged) {
  prediction found = forecast_memory(events, staged);
  add_time(events, found);
  return found;
}

}  // namespace um
