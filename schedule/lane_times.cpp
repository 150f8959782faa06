#include "schedule/lane_times.hpp"

#include <algorithm>
#include <limits>

namespace um {
namespace {

constexpr std::int64_t full_pace = 1000;

constexpr std::size_t index_of(lane l) {
  return static_cast<std::size_t>(l);
}

// As speed_beside in simulator/execute.cpp. Without a rate both ways: full pace.
std::int64_t pace_beside(std::uint64_t own, std::uint64_t other, std::uint64_t both) {
  const std::uint64_t share = std::max(both / 2, both - std::min(other, both));
  if (both == 0 || share >= own) return full_pace;
  return std::clamp<std::int64_t>(
      static_cast<std::int64_t>(share / std::max<std::uint64_t>(own / full_pace, 1)), 1, full_pace);
}

// Until all lanes are through; `pace_in`, `pace_out`: of copies, in thousandths, while they go both ways.
nanoseconds time_of_lanes(const lane_steps& lanes, std::int64_t pace_in, std::int64_t pace_out) {
  constexpr nanoseconds never = std::numeric_limits<nanoseconds>::max();
  std::array<std::size_t, lane_count> next{};
  std::array<bool, lane_count> busy{};
  std::array<nanoseconds, lane_count> left{};
  // Lanes keep their order, so that what has ended in one is told by its next step.
  const auto has_ended = [&](std::size_t l, std::int32_t e) {
    return e < 0 || next[l] == lanes[l].size() || lanes[l][next[l]].event > static_cast<std::uint32_t>(e);
  };
  nanoseconds now = 0;
  for (;;) {
    for (std::size_t l = 0; l < lane_count; ++l) {
      if (busy[l] || next[l] == lanes[l].size()) continue;
      const lane_step& s = lanes[l][next[l]];
      if (!has_ended(0, s.after[0]) || !has_ended(1, s.after[1]) || !has_ended(2, s.after[2])) continue;
      busy[l] = true;
      left[l] = s.alone;
    }
    std::array<std::int64_t, lane_count> pace{};
    std::array<nanoseconds, lane_count> wait{};
    const bool both = busy[index_of(lane::to_device)] && busy[index_of(lane::to_host)];
    nanoseconds passed = never;
    for (std::size_t l = 0; l < lane_count; ++l) {
      pace[l] = !both || l == index_of(lane::compute) ? full_pace
                : l == index_of(lane::to_device)      ? pace_in
                                                      : pace_out;
      wait[l] = busy[l] ? (left[l] * full_pace + pace[l] - 1) / pace[l] : never;
      passed = std::min(passed, wait[l]);
    }
    if (passed == never) return now;
    now += passed;
    for (std::size_t l = 0; l < lane_count; ++l) {
      if (!busy[l]) continue;
      left[l] -= passed * pace[l] / full_pace;
      if (wait[l] > passed) continue;
      busy[l] = false;
      ++next[l];
    }
  }
}

}  // namespace

lane_times::lane_times(const event_costs& costs) : costs_(costs), free_(costs.parts.size(), false) {
  const auto in = costs.on.link_to_device_bytes_per_s, out = costs.on.link_to_host_bytes_per_s;
  pace_in_ = pace_beside(in, out, costs.on.link_both_bytes_per_s);
  pace_out_ = pace_beside(out, in, costs.on.link_both_bytes_per_s);
}

lane_totals lane_times::of(std::span<const event> events, const device_stays& stays, byte_count peak) {
  lane_totals found;
  if (!stays.copies()) {  // nothing waits
    for (const event& e : events) {
      if (e.what != verb::compute) continue;
      found.time += costs_.time_of(e);
      if (e.again) found.again += costs_.time_of(e);
    }
    return found;
  }
  note_room_given_up(stays);
  make_steps(events, stays, peak, found);
  found.time = time_of_lanes(lanes_, pace_in_, pace_out_);
  return found;
}

void lane_times::note_room_given_up(const device_stays& stays) {
  const std::size_t count = stays.live().size();
  given_up_.assign(count, 0);
  releasers_.assign(count, {-1, -1, -1});
  for (const departure& d : stays.departures()) {
    given_up_[d.end - 1] += costs_.parts[d.which].bytes;
    merge(releasers_[d.end - 1], d.by_lane);
  }
  for (std::size_t i = 1; i < count; ++i) {
    given_up_[i] += given_up_[i - 1];
    merge(releasers_[i], releasers_[i - 1]);
  }
}

// What takes room waits for the last that gave some up without whom the arena would be too small, and for all
// before it.
void lane_times::wait_for_room(std::uint32_t at, const device_stays& stays, byte_count peak,
                               last_events& after) const {
  if (at == 0 || !stays.takes_room(at)) return;
  if (assume_worst_) return merge(after, releasers_[at - 1]);
  const byte_count spare = peak - stays.live()[at];
  if (given_up_[at - 1] <= spare) return;
  const byte_count needed = given_up_[at - 1] - spare;
  const auto releaser = std::lower_bound(given_up_.begin(), given_up_.begin() + at, needed);
  merge(after, releasers_[static_cast<std::size_t>(releaser - given_up_.begin())]);
}

void lane_times::make_steps(std::span<const event> events, const device_stays& stays, byte_count peak,
                            lane_totals& found) {
  copied_.assign(costs_.parts.size(), 0);
  at_home_.resize(costs_.parts.size());
  users_on_device_.resize(costs_.parts.size());
  users_at_home_.resize(costs_.parts.size());
  for (const event& e : events) {
    if (e.what != verb::prefetch && e.what != verb::evict) continue;
    copied_[e.which] = 1;
    at_home_[e.which] = costs_.parts[e.which].persists ? 1 : 0;
    users_on_device_[e.which] = users_at_home_[e.which] = {};
  }
  for (auto& l : lanes_) l.clear();
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    const event& e = events[i];
    lane_step s{i, 0, {-1, -1, -1}};
    const auto reads = [&](user& u, lane l) {
      merge(s.after, u.write);
      u.read[index_of(l)] = static_cast<std::int32_t>(i);
    };
    const auto writes = [&](user& u, lane l) {
      merge(s.after, u.read);
      merge(s.after, u.write);
      u.write[index_of(l)] = static_cast<std::int32_t>(i);
    };
    lane where = lane::compute;
    if (e.what == verb::discard) {
      at_home_[e.which] = 0;
      continue;
    }
    if (e.what == verb::compute) {
      s.alone = costs_.time_of(e);
      if (e.again) found.again += s.alone;
      for (const touched_part& x : costs_.touches_of(e)) {
        if (copied_[x.which] == 0) continue;  // its users are one lane's, and wait for one another anyway
        x.mode == access_mode::read ? reads(users_on_device_[x.which], where)
                                    : writes(users_on_device_[x.which], where);
        if (x.mode != access_mode::read) at_home_[x.which] = 0;
      }
    } else {
      const byte_count bytes = costs_.parts[e.which].bytes;
      const bool in = e.what == verb::prefetch;
      if (!in && at_home_[e.which] != 0) continue;
      where = in ? lane::to_device : lane::to_host;
      (in ? found.to_device : found.to_host) += bytes;
      ++found.copies;
      s.alone = free_[e.which] ? 0 : time_of_copy(costs_.on, bytes, where);
      reads(in ? users_at_home_[e.which] : users_on_device_[e.which], where);
      writes(in ? users_on_device_[e.which] : users_at_home_[e.which], where);
      at_home_[e.which] = 1;
    }
    wait_for_room(i, stays, peak, s.after);
    s.after[index_of(where)] = -1;
    lanes_[index_of(where)].push_back(s);
  }
}

}  // namespace um
