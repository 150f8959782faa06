#include "schedule/forecast.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace um {
namespace {

constexpr std::int32_t absent = -1, permanent = -2;  // values in place of a part's last touch

constexpr std::size_t index_of(lane l) {
  return static_cast<std::size_t>(l);
}
constexpr std::size_t on_compute = index_of(lane::compute), on_fetch = index_of(lane::to_device),
                      on_evict = index_of(lane::to_host);

void raise_to(last_events& after, std::size_t l, std::int32_t e) {
  after[l] = std::max(after[l], e);
}

// Pace of a copy while the other direction is busy, as speed_beside computes it in simulator/execute.cpp.
// Full pace if the machine has no rate for both directions.
std::int64_t concurrent_pace(std::uint64_t own, std::uint64_t other, std::uint64_t both) {
  const std::uint64_t share = std::max(both / 2, both - std::min(other, both));
  if (both == 0 || share >= own) return full_pace;
  return std::clamp<std::int64_t>(
      static_cast<std::int64_t>(share / std::max<std::uint64_t>(own / full_pace, 1)), 1, full_pace);
}

bool is_copy(const event& e) {
  return e.kind == event_kind::prefetch || e.kind == event_kind::evict;
}

}  // namespace

lane_simulator::lane_simulator(const event_costs& costs)
    : costs_(costs), last_touches_(costs.parts.size()), copied_parts_(costs.parts.size()) {
  const auto in = costs.target.link_to_device_bytes_per_s, out = costs.target.link_to_host_bytes_per_s;
  pace_.to_device = concurrent_pace(in, out, costs.target.link_both_bytes_per_s);
  pace_.to_host = concurrent_pace(out, in, costs.target.link_both_bytes_per_s);
  for (part_id p = 0; p < costs.parts.size(); ++p) {
    if (costs.parts[p].keeps_memory) keeping_.push_back(p);
  }
}

lane_totals lane_simulator::simulate(std::span<const event> events, const std::vector<bool>& staged_tensors,
                                     const memory_profile& memory, nanoseconds max_time) {
  totals_ = {};
  for (auto& l : lanes_) l.clear();
  if (std::ranges::none_of(events, is_copy)) {  // without copies no event waits
    for (const event& e : events) {
      if (e.kind != event_kind::compute) continue;
      totals_.time += costs_.time_of_compute(e);
      if (e.is_recompute) totals_.recompute_time += costs_.time_of_compute(e);
    }
    return totals_;
  }
  memory_ = memory;
  reset(events, staged_tensors);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const event& e = events[i];
    const auto event_index = static_cast<std::int32_t>(i);
    switch (e.kind) {
      case event_kind::compute:
        add_compute(e, event_index);
        break;
      case event_kind::prefetch:
        add_fetch(e.subject, event_index);
        break;
      case event_kind::evict:
        add_evict(e.subject, event_index);
        break;
      case event_kind::discard:
        add_discard(e.subject);
        break;
    }
  }
  totals_.time = time_of_lanes(lanes_, pace_, max_time);
  return totals_;
}

nanoseconds lane_simulator::time_without_copies_of(part_id p) {
  std::vector<std::pair<lane_step*, nanoseconds>> freed;
  for (const std::size_t l : {on_fetch, on_evict}) {
    for (lane_step& s : lanes_[l]) {
      if (s.copied_part == p) freed.emplace_back(&s, std::exchange(s.time_alone, 0));
    }
  }
  const nanoseconds time = time_of_lanes(lanes_, pace_, std::numeric_limits<nanoseconds>::max());
  for (const auto& [step, alone] : freed) step->time_alone = alone;
  return time;
}

void lane_simulator::reset(std::span<const event> events, const std::vector<bool>& staged_tensors) {
  is_copied_.assign(costs_.parts.size(), 0);
  std::ranges::fill(last_touches_, absent);
  for (const part_id p : keeping_) {
    if (!staged_tensors[costs_.parts[p].tensor]) last_touches_[p] = permanent;
  }
  for (const event& e : events) {
    if (!is_copy(e)) continue;
    is_copied_[e.subject] = 1;
    copied_parts_[e.subject] = {};
    copied_parts_[e.subject].is_host_copy_valid = costs_.parts[e.subject].persists;
  }
  releasers_ = {-1, -1, -1};
  releases_.clear();
}

void lane_simulator::add_step(lane where, lane_step s) {
  s.waits_for[index_of(where)] = -1;  // no need to wait for its own lane, which runs in order
  lanes_[index_of(where)].push_back(s);
}

void lane_simulator::add_compute(const event& e, std::int32_t event_index) {
  lane_step s{event_index, 0, costs_.time_of_compute(e), {-1, -1, -1}};
  if (e.is_recompute) totals_.recompute_time += s.time_alone;
  bool takes_memory = false;
  for (const touched_part& x : costs_.touches_of(e)) {
    std::int32_t& last = last_touches_[x.part];
    if (last == permanent) continue;
    const bool comes = last == absent;
    takes_memory = takes_memory || comes;
    last = event_index;
    if (is_copied_[x.part] == 0) continue;
    copied_part& c = copied_parts_[x.part];
    if (comes) c.fetched_in_stay = -1;
    c.computed_in_stay = event_index;
    raise_to(s.waits_for, on_fetch, c.fetched);
    if (x.mode == access_mode::read) {
      c.read = event_index;
    } else {
      raise_to(s.waits_for, on_evict, c.evicted);
      c.written = event_index;
      c.is_host_copy_valid = false;
    }
  }
  if (takes_memory) wait_for_memory(event_index, s.waits_for);
  add_step(lane::compute, s);
}

void lane_simulator::add_fetch(part_id p, std::int32_t event_index) {
  copied_part& c = copied_parts_[p];
  lane_step s{event_index, p, costs_.parts[p].copy_to_device, {std::max(c.read, c.written), -1, c.evicted}};
  if (last_touches_[p] == absent) {
    c.computed_in_stay = -1;
    wait_for_memory(event_index, s.waits_for);
  }
  if (last_touches_[p] != permanent) last_touches_[p] = event_index;
  c.fetched = c.fetched_in_stay = event_index;
  c.is_host_copy_valid = true;
  totals_.bytes_to_device += costs_.parts[p].bytes;
  ++totals_.copy_count;
  add_step(lane::to_device, s);
}

void lane_simulator::add_evict(part_id p, std::int32_t event_index) {
  copied_part& c = copied_parts_[p];
  if (!c.is_host_copy_valid) {
    add_step(lane::to_host, {event_index, p, costs_.parts[p].copy_to_host, {c.written, c.fetched, -1}});
    c.evicted = event_index;
    c.is_host_copy_valid = true;
    totals_.bytes_to_host += costs_.parts[p].bytes;
    ++totals_.copy_count;
  }
  if (last_touches_[p] >= 0) end_stay(p, event_index);
}

void lane_simulator::add_discard(part_id p) {
  if (is_copied_[p] != 0) copied_parts_[p].is_host_copy_valid = false;
  if (last_touches_[p] >= 0) end_stay(p, -1);
}

// `evicted`: the event that evicts the part; -1: it is discarded.
void lane_simulator::end_stay(part_id p, std::int32_t evicted) {
  const copied_part& c = copied_parts_[p];
  const std::int32_t touched = std::exchange(last_touches_[p], absent);
  const last_events by = is_copied_[p] == 0 ? last_events{touched, -1, -1}
                                            : last_events{c.computed_in_stay, c.fetched_in_stay, evicted};
  merge_latest(releasers_, by);
  if (memory_waits_ == memory_waits::until_enough)
    record_release({std::max(touched, evicted), costs_.parts[p].bytes, by});
}

void lane_simulator::record_release(release added) {
  auto at = releases_.end();
  while (at != releases_.begin() && std::prev(at)->event >= added.event) --at;
  if (at == releases_.end() || at->event != added.event) {
    const release before = at == releases_.begin() ? release{} : *std::prev(at);
    at = releases_.insert(at, {added.event, before.bytes, before.by});
  }
  for (; at != releases_.end(); ++at) {
    at->bytes += added.bytes;
    merge_latest(at->by, added.by);
  }
}

// An allocation waits for releases, in their order, until enough memory is free in an arena as large as the
// peak.
void lane_simulator::wait_for_memory(std::int32_t event_index, last_events& after) const {
  if (memory_waits_ == memory_waits::for_all) return merge_latest(after, releasers_);
  if (releases_.empty()) return;
  const byte_count spare = memory_.peak - memory_.live_bytes[static_cast<std::size_t>(event_index)];
  if (releases_.back().bytes <= spare) return;
  merge_latest(after,
               std::ranges::lower_bound(releases_, releases_.back().bytes - spare, {}, &release::bytes)->by);
}

prediction forecaster::forecast_memory(std::span<const event> events,
                                       const std::vector<bool>& staged_tensors) {
  prediction found;
  found.peak = residency_.replay(events, staged_tensors);
  return found;
}

prediction forecaster::forecast(std::span<const event> events, const std::vector<bool>& staged_tensors) {
  prediction found = forecast_memory(events, staged_tensors);
  add_time(events, staged_tensors, found);
  return found;
}

}  // namespace um
