#include "schedule/device_residency.hpp"

#include <algorithm>

namespace um {

device_residency::device_residency(const event_costs& costs) : costs_(costs), parts_(costs.parts.size()) {}

byte_count device_residency::replay(std::span<const event> events, const std::vector<bool>& staged_tensors) {
  reset(events.size(), staged_tensors);
  apply(events);
  const auto count = static_cast<std::uint32_t>(events.size());
  for (part_id p = 0; p < costs_.parts.size(); ++p) {
    if (parts_[p].state != presence::present) continue;
    const part_costs& part = costs_.parts[p];
    remove_part(p, part.survives && !staged_tensors[part.tensor] ? count : parts_[p].last_touch + 1);
  }
  return sum_live_bytes(events);
}

void device_residency::reset(std::size_t events, const std::vector<bool>& staged_tensors) {
  live_bytes_.assign(events + 1, 0);
  in_place_outputs_.clear();
  parts_.assign(costs_.parts.size(), {});
  permanent_bytes_ = 0;
  for (part_id p = 0; p < parts_.size(); ++p) {
    if (!costs_.parts[p].keeps_memory || staged_tensors[costs_.parts[p].tensor]) continue;
    parts_[p].state = presence::permanent;
    permanent_bytes_ += costs_.parts[p].bytes;
  }
  permanent_bytes_ -= joined_bytes(costs_, staged_tensors);
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
        if (parts_[e.subject].state == presence::present) remove_part(e.subject, i + 1);
        break;
      case event_kind::discard:
        if (parts_[e.subject].state == presence::present)
          remove_part(e.subject, parts_[e.subject].last_touch + 1);
        break;
    }
  }
}

std::span<const byte_count> device_residency::live_bytes_within(
    std::span<const event> events, const std::vector<bool>& staged_tensors,
    std::span<const part_states::queried_part> touched) {
  for (const part_states::queried_part& x : touched) {
    const part_costs& part = costs_.parts[x.part];
    parts_[x.part].last_in_place = no_event;
    parts_[x.part].state = part.keeps_memory && !staged_tensors[part.tensor] ? presence::permanent
                           : (x.old_state & on_device) != 0                  ? presence::present
                                                                             : presence::absent;
    parts_[x.part].last_touch = no_event;
  }
  live_bytes_.assign(events.size() + 1, 0);
  in_place_outputs_.clear();
  permanent_bytes_ = 0;
  apply(events);
  sum_live_bytes(events);
  return live_bytes_;
}

void device_residency::apply_compute(const event& e, std::uint32_t event_index) {
  const auto [from, to] = costs_.in_place_parts[e.subject];
  const bool elsewhere = e.is_recompute && !costs_.uses.recompute_touched_parts[e.subject].empty();
  if (from != to && !elsewhere && parts_[to].state == presence::absent &&
      parts_[from].state != presence::absent)
    parts_[from].last_in_place = event_index;
  for (const touched_part& x : costs_.touches_of(e)) {
    if (parts_[x.part].state != presence::permanent) touch_part(x.part, event_index);
  }
}

void device_residency::touch_part(part_id p, std::uint32_t event_index) {
  if (parts_[p].state == presence::absent) {
    parts_[p].state = presence::present;
    live_bytes_[event_index] += costs_.parts[p].bytes;
  }
  parts_[p].last_touch = event_index;
}

void device_residency::remove_part(part_id p, std::uint32_t end) {
  const byte_count bytes = costs_.parts[p].bytes;
  parts_[p].state = presence::absent;
  live_bytes_[end] -= bytes;
  if (parts_[p].last_in_place == end - 1) in_place_outputs_.push_back({end - 1, bytes});
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
