#include "schedule/device_residency.hpp"

#include <algorithm>

namespace um {

device_residency::device_residency(const event_costs& costs)
    : costs_(costs),
      presence_(costs.parts.size(), presence::absent),
      last_touch_(costs.parts.size()),
      last_in_place_(costs.parts.size(), no_event) {}

byte_count device_residency::replay(std::span<const event> events, const std::vector<bool>& staged) {
  reset(events.size(), staged);
  apply(events);
  const auto count = static_cast<std::uint32_t>(events.size());
  for (part_id p = 0; p < costs_.parts.size(); ++p) {
    if (presence_[p] != presence::present) continue;
    const planned_part& part = costs_.parts[p];
    remove_part(p, part.survives && !staged[part.tensor] ? count : last_touch_[p] + 1);
  }
  return sum_live_bytes(events);
}

void device_residency::reset(std::size_t events, const std::vector<bool>& staged) {
  const std::size_t parts = costs_.parts.size();
  live_bytes_.assign(events + 1, 0);
  in_place_outputs_.clear();
  presence_.assign(parts, presence::absent);
  last_in_place_.assign(parts, no_event);
  permanent_bytes_ = 0;
  for (part_id p = 0; p < parts; ++p) {
    if (!costs_.parts[p].persists || staged[costs_.parts[p].tensor]) continue;
    presence_[p] = presence::permanent;
    permanent_bytes_ += costs_.parts[p].bytes;
  }
}

void device_residency::apply(std::span<const event> events) {
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    const event& e = events[i];
    switch (e.kind) {
      case event_kind::compute:
        apply_compute(e, i);
        break;
      case event_kind::prefetch:
        touch_part(e.subject, i);
        break;
      case event_kind::evict:
        if (presence_[e.subject] == presence::present) {
          remove_part(e.subject, i + 1);
        }
        break;
      case event_kind::discard:
        if (presence_[e.subject] == presence::present) remove_part(e.subject, last_touch_[e.subject] + 1);
        break;
    }
  }
}

std::span<const byte_count> device_residency::replay_position(std::span<const event> events) {
  live_bytes_.assign(events.size() + 1, 0);
  in_place_outputs_.clear();
  permanent_bytes_ = 0;
  apply(events);
  sum_live_bytes(events);
  return live_bytes_;
}

void device_residency::apply_compute(const event& e, std::uint32_t at) {
  const auto [from, to] = costs_.in_place_parts[e.subject];
  const bool elsewhere = e.is_recompute && !costs_.uses.recompute_touched_parts[e.subject].empty();
  if (from != to && !elsewhere && presence_[to] == presence::absent && presence_[from] != presence::absent)
    last_in_place_[from] = at;
  for (const touched_part& x : costs_.touches_of(e)) {
    if (presence_[x.part] != presence::permanent) touch_part(x.part, at);
  }
}

void device_residency::touch_part(part_id p, std::uint32_t at) {
  if (presence_[p] == presence::absent) {
    presence_[p] = presence::present;
    live_bytes_[at] += costs_.parts[p].bytes;
  }
  last_touch_[p] = at;
}

void device_residency::remove_part(part_id p, std::uint32_t end) {
  const byte_count bytes = costs_.parts[p].bytes;
  presence_[p] = presence::absent;
  live_bytes_[end] -= bytes;
  if (last_in_place_[p] == end - 1) in_place_outputs_.push_back({end - 1, bytes});
}

// Sets live_bytes_ and returns their maximum.
byte_count device_residency::sum_live_bytes(std::span<const event> events) {
  const std::size_t count = events.size();
  byte_count now = permanent_bytes_;
  for (std::size_t i = 0; i <= count; ++i) live_bytes_[i] = now += live_bytes_[i];
  live_bytes_.pop_back();
  for (const in_place_output& t : in_place_outputs_) live_bytes_[t.event] -= t.bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const event& e = events[i];
    if (e.kind == event_kind::compute) live_bytes_[i] += costs_.workspace_of(e);
  }
  return live_bytes_.empty() ? 0 : *std::ranges::max_element(live_bytes_);
}

}  // namespace um
