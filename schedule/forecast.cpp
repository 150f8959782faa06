#include "schedule/forecast.hpp"

#include <algorithm>
#include <limits>

#include "core/compute.hpp"

namespace um {
namespace {

constexpr std::uint32_t none = ~std::uint32_t{0};
constexpr std::uint32_t always = none - 1;  // on the device all the time
constexpr std::int64_t full_pace = 1000;

constexpr std::size_t index_of(lane l) {
  return static_cast<std::size_t>(l);
}

// As simulator/execute.cpp has it.
std::int64_t pace_beside(std::uint64_t own, std::uint64_t other, std::uint64_t both) {
  const std::uint64_t share = std::max(both / 2, both - std::min(other, both));
  if (both == 0 || share >= own) return full_pace;
  return std::clamp<std::int64_t>(
      static_cast<std::int64_t>(share / std::max<std::uint64_t>(own / full_pace, 1)), 1, full_pace);
}

// The parts that an operator may compute in place; the same twice if there are none.
std::pair<part_id, part_id> in_place(const graph& g, const use_table& uses, position at) {
  const auto i = static_cast<std::size_t>(at);
  const op& o = g.ops[uses.order[i].what];
  if (!o.alias) return {0, 0};
  const tensor_id from = o.in[o.alias->input], to = o.out[o.alias->output];
  if (from == to || survives(g.tensors[from].use)) return {0, 0};
  const auto only_part = [&](tensor_id t) {
    std::uint32_t found = none;
    for (const touched_part& x : uses.of_position[i]) {
      if (uses.parts[x.which].what == t) found = found == none ? x.which : none - 1;
    }
    return found;
  };
  const std::uint32_t a = only_part(from), b = only_part(to);
  if (a >= none - 1 || b >= none - 1 || uses.parts[a].bytes != uses.parts[b].bytes) return {0, 0};
  return {a, b};
}

// A slice of a filter gradient that adds to what earlier ones wrote may keep its own share apart first.
byte_count workspace_at(const graph& g, const use_table& uses, position at, byte_count own) {
  byte_count bytes = round_up(own, arena_alignment);
  const auto i = static_cast<std::size_t>(at);
  if (!std::holds_alternative<convolution_backward_filter>(g.ops[uses.order[i].what].what)) return bytes;
  for (const touched_part& x : uses.of_position[i]) {
    if (x.mode == access_mode::accumulate) bytes += uses.parts[x.which].bytes;
  }
  return bytes;
}

void merge(std::array<std::int32_t, lane_count>& into, const std::array<std::int32_t, lane_count>& from) {
  for (std::size_t l = 0; l < lane_count; ++l) into[l] = std::max(into[l], from[l]);
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

nanoseconds time_again(const problem& p, op_id what) {
  const auto second = repeated(p.network, {what, {}});
  const nanoseconds first = p.costs[what].time;
  return second.again ? std::min(first, cost_of(p, second).time) : first;
}

forecaster::forecaster(const problem& p, const use_table& uses)
    : p_(p), uses_(uses), free_(uses.parts.size(), false) {
  for (position at = 0; at < uses.end(); ++at) {
    const op_cost cost = cost_of(p, uses.order[static_cast<std::size_t>(at)]);
    time_.push_back(cost.time);
    workspace_.push_back(workspace_at(p.network, uses, at, cost.workspace_bytes));
    const auto second = repeated(p.network, uses.order[static_cast<std::size_t>(at)]);
    time_again_.push_back(second.again ? cost_of(p, second).time : cost.time);
    workspace_again_.push_back(second.again ? 0 : workspace_.back());
    in_place_.push_back(in_place(p.network, uses, at));
    first_touch_.push_back(static_cast<std::uint32_t>(touches_.size()));
    const auto& here = uses.of_position[static_cast<std::size_t>(at)];
    touches_.insert(touches_.end(), here.begin(), here.end());
  }
  first_touch_.push_back(static_cast<std::uint32_t>(touches_.size()));
  for (part_id part = 0; part < uses.parts.size(); ++part) {
    const role what = p.network.tensors[uses.parts[part].what].use;
    part_facts_.push_back({uses.parts[part].bytes, uses.parts[part].what, persists(what), survives(what)});
  }
  presence_.assign(uses.parts.size(), presence::away);
  may_take_over_.assign(uses.parts.size(), no_event);
  touched_.resize(uses.parts.size());
  const machine& on = p.on;
  pace_in_ =
      pace_beside(on.link_to_device_bytes_per_s, on.link_to_host_bytes_per_s, on.link_both_bytes_per_s);
  pace_out_ =
      pace_beside(on.link_to_host_bytes_per_s, on.link_to_device_bytes_per_s, on.link_both_bytes_per_s);
}

nanoseconds forecaster::time_of_copy(byte_count bytes, lane where) const {
  const std::uint64_t rate =
      where == lane::to_device ? p_.on.link_to_device_bytes_per_s : p_.on.link_to_host_bytes_per_s;
  return p_.on.copy_ns +
         (rate == 0 ? std::numeric_limits<nanoseconds>::max() / 1'000'000 : time_at(bytes, rate));
}

prediction forecaster::memory_of(std::span<const event> events, const std::vector<bool>& staged) {
  prediction found;
  copies_ = std::ranges::any_of(
      events, [](const event& e) { return e.what == verb::prefetch || e.what == verb::evict; });
  find_stays(events, staged);
  found.peak = add_up(events);
  found.at = static_cast<std::uint32_t>(std::ranges::find(live_, found.peak) - live_.begin());
  return found;
}

prediction forecaster::of(std::span<const event> events, const std::vector<bool>& staged) {
  prediction found = memory_of(events, staged);
  add_time(events, found);
  return found;
}

void forecaster::add_time(std::span<const event> events, prediction& found) {
  if (!copies_) {  // nothing waits
    for (const event& e : events) {
      if (e.what != verb::compute) continue;
      found.time += time_of(e);
      if (e.again) found.again += time_of(e);
    }
    return;
  }
  note_room_given_up();
  make_steps(events, found.peak, found);
  found.time = time_of_lanes(lanes_, pace_in_, pace_out_);
}

// --- memory ---

// Sets live_ to what each event adds or, modulo 2^64, takes away.
void forecaster::find_stays(std::span<const event> events, const std::vector<bool>& staged) {
  const auto count = static_cast<std::uint32_t>(events.size());
  const std::size_t parts = part_facts_.size();
  live_.assign(count + 1, 0);
  opens_.assign(count + 1, 0);
  departures_.clear();
  takeovers_.clear();
  presence_.assign(parts, presence::away);
  may_take_over_.assign(parts, no_event);
  touched_.resize(parts);
  always_ = 0;
  for (part_id p = 0; p < parts; ++p) {
    if (!part_facts_[p].persists || staged[part_facts_[p].what]) continue;
    presence_[p] = presence::always;
    always_ += part_facts_[p].bytes;
  }
  follow(events);
  for (part_id p = 0; p < parts; ++p) {
    if (presence_[p] != presence::here) continue;
    leave(p, part_facts_[p].survives && !staged[part_facts_[p].what] ? count : last_touch(p) + 1);
  }
}

void forecaster::follow(std::span<const event> events) {
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    const event& e = events[i];
    switch (e.what) {
      case verb::compute:
        compute(e, i);
        break;
      case verb::prefetch:
        touch(e.which, i, lane::to_device);
        break;
      case verb::evict:
        if (presence_[e.which] == presence::here) {
          touch(e.which, i, lane::to_host);
          leave(e.which, i + 1);
        }
        break;
      case verb::discard:
        if (presence_[e.which] == presence::here) leave(e.which, last_touch(e.which) + 1);
        break;
    }
  }
}

std::span<const byte_count> forecaster::follow_alone(std::span<const event> events) {
  live_.assign(events.size() + 1, 0);
  opens_.assign(events.size() + 1, 0);
  takeovers_.clear();
  copies_ = false;
  always_ = 0;
  follow(events);
  add_up(events);
  return live_;
}

void forecaster::compute(const event& e, std::uint32_t at) {
  const auto [from, to] = in_place_[e.which];
  const bool elsewhere = e.again && !uses_.of_repetition[e.which].empty();
  if (from != to && !elsewhere && presence_[to] == presence::away && presence_[from] != presence::away)
    may_take_over_[from] = at;
  for (const touched_part& x : touches_of(e)) {
    if (presence_[x.which] != presence::always) touch(x.which, at, lane::compute);
  }
}

void forecaster::touch(part_id p, std::uint32_t at, lane by) {
  if (presence_[p] == presence::away) {
    presence_[p] = presence::here;
    touched_[p] = {-1, -1, -1};
    live_[at] += part_facts_[p].bytes;
    opens_[at] = 1;
  }
  touched_[p][index_of(by)] = static_cast<std::int32_t>(at);
}

std::uint32_t forecaster::last_touch(part_id p) const {
  return static_cast<std::uint32_t>(std::max({touched_[p][0], touched_[p][1], touched_[p][2]}));
}

void forecaster::leave(part_id p, std::uint32_t end) {
  const byte_count bytes = part_facts_[p].bytes;
  presence_[p] = presence::away;
  live_[end] -= bytes;
  if (may_take_over_[p] == end - 1) takeovers_.push_back({end - 1, bytes});
  if (copies_) departures_.push_back({p, end, touched_[p]});
}

// Sets live_; the peak.
byte_count forecaster::add_up(std::span<const event> events) {
  const std::size_t count = events.size();
  byte_count now = always_;
  for (std::size_t i = 0; i <= count; ++i) live_[i] = now += live_[i];
  live_.pop_back();
  for (const takeover& t : takeovers_) live_[t.at] -= t.bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const event& e = events[i];
    if (e.what == verb::compute) live_[i] += e.again ? workspace_again_[e.which] : workspace_[e.which];
  }
  return live_.empty() ? 0 : *std::ranges::max_element(live_);
}

void forecaster::note_room_given_up() {
  given_up_.assign(live_.size(), 0);
  givers_.assign(live_.size(), {-1, -1, -1});
  for (const departure& d : departures_) {
    given_up_[d.end - 1] += part_facts_[d.which].bytes;
    merge(givers_[d.end - 1], d.by_lane);
  }
  for (std::size_t i = 1; i < live_.size(); ++i) {
    given_up_[i] += given_up_[i - 1];
    merge(givers_[i], givers_[i - 1]);
  }
}

// What takes room waits for the last that gave some up without whom the arena would be too small, and for all
// before it.
void forecaster::wait_for_room(std::uint32_t at, byte_count peak, last_events& after) const {
  if (at == 0 || opens_[at] == 0) return;
  if (worst_) return merge(after, givers_[at - 1]);
  const byte_count spare = peak - live_[at];
  if (given_up_[at - 1] <= spare) return;
  const byte_count needed = given_up_[at - 1] - spare;
  const auto giver = std::lower_bound(given_up_.begin(), given_up_.begin() + at, needed);
  merge(after, givers_[static_cast<std::size_t>(giver - given_up_.begin())]);
}

// --- time ---

void forecaster::make_steps(std::span<const event> events, byte_count peak, prediction& found) {
  copied_.assign(uses_.parts.size(), 0);
  at_home_.resize(uses_.parts.size());
  users_on_device_.resize(uses_.parts.size());
  users_at_home_.resize(uses_.parts.size());
  for (const event& e : events) {
    if (e.what != verb::prefetch && e.what != verb::evict) continue;
    copied_[e.which] = 1;
    at_home_[e.which] = part_facts_[e.which].persists ? 1 : 0;
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
      s.alone = time_of(e);
      if (e.again) found.again += s.alone;
      for (const touched_part& x : touches_of(e)) {
        if (copied_[x.which] == 0) continue;  // its users are one lane's, and wait for one another anyway
        x.mode == access_mode::read ? reads(users_on_device_[x.which], where)
                                    : writes(users_on_device_[x.which], where);
        if (x.mode != access_mode::read) at_home_[x.which] = 0;
      }
    } else {
      const byte_count bytes = uses_.parts[e.which].bytes;
      const bool in = e.what == verb::prefetch;
      if (!in && at_home_[e.which] != 0) continue;
      where = in ? lane::to_device : lane::to_host;
      (in ? found.to_device : found.to_host) += bytes;
      ++found.copies;
      s.alone = free_[e.which] ? 0 : time_of_copy(bytes, where);
      reads(in ? users_at_home_[e.which] : users_on_device_[e.which], where);
      writes(in ? users_on_device_[e.which] : users_at_home_[e.which], where);
      at_home_[e.which] = 1;
    }
    wait_for_room(i, peak, s.after);
    s.after[index_of(where)] = -1;
    lanes_[index_of(where)].push_back(s);
  }
}

}  // namespace um
