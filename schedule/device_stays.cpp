#include "schedule/device_stays.hpp"

#include <algorithm>

namespace um {

void merge(last_events& into, const last_events& from) {
  for (std::size_t l = 0; l < lane_count; ++l) into[l] = std::max(into[l], from[l]);
}

device_stays::device_stays(const event_costs& costs)
    : costs_(costs),
      presence_(costs.parts.size(), presence::away),
      touched_(costs.parts.size()),
      may_take_over_(costs.parts.size(), no_event) {}

byte_count device_stays::follow(std::span<const event> events, const std::vector<bool>& staged) {
  copies_ = std::ranges::any_of(
      events, [](const event& e) { return e.what == verb::prefetch || e.what == verb::evict; });
  begin(events.size(), staged);
  visit(events);
  const auto count = static_cast<std::uint32_t>(events.size());
  for (part_id p = 0; p < costs_.parts.size(); ++p) {
    if (presence_[p] != presence::here) continue;
    const forecast_part& part = costs_.parts[p];
    leave(p, part.survives && !staged[part.what] ? count : last_touch(p) + 1);
  }
  return add_up(events);
}

void device_stays::begin(std::size_t events, const std::vector<bool>& staged) {
  const std::size_t parts = costs_.parts.size();
  live_.assign(events + 1, 0);
  opens_.assign(events + 1, 0);
  departures_.clear();
  takeovers_.clear();
  presence_.assign(parts, presence::away);
  may_take_over_.assign(parts, no_event);
  always_ = 0;
  for (part_id p = 0; p < parts; ++p) {
    if (!costs_.parts[p].persists || staged[costs_.parts[p].what]) continue;
    presence_[p] = presence::always;
    always_ += costs_.parts[p].bytes;
  }
}

void device_stays::visit(std::span<const event> events) {
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

std::span<const byte_count> device_stays::follow_alone(std::span<const event> events) {
  live_.assign(events.size() + 1, 0);
  opens_.assign(events.size() + 1, 0);
  takeovers_.clear();
  copies_ = false;
  always_ = 0;
  visit(events);
  add_up(events);
  return live_;
}

void device_stays::compute(const event& e, std::uint32_t at) {
  const auto [from, to] = costs_.in_place[e.which];
  const bool elsewhere = e.again && !costs_.uses.of_repetition[e.which].empty();
  if (from != to && !elsewhere && presence_[to] == presence::away && presence_[from] != presence::away)
    may_take_over_[from] = at;
  for (const touched_part& x : costs_.touches_of(e)) {
    if (presence_[x.which] != presence::always) touch(x.which, at, lane::compute);
  }
}

void device_stays::touch(part_id p, std::uint32_t at, lane by) {
  if (presence_[p] == presence::away) {
    presence_[p] = presence::here;
    touched_[p] = {-1, -1, -1};
    live_[at] += costs_.parts[p].bytes;
    opens_[at] = 1;
  }
  touched_[p][static_cast<std::size_t>(by)] = static_cast<std::int32_t>(at);
}

std::uint32_t device_stays::last_touch(part_id p) const {
  return static_cast<std::uint32_t>(std::max({touched_[p][0], touched_[p][1], touched_[p][2]}));
}

void device_stays::leave(part_id p, std::uint32_t end) {
  const byte_count bytes = costs_.parts[p].bytes;
  presence_[p] = presence::away;
  live_[end] -= bytes;
  if (may_take_over_[p] == end - 1) takeovers_.push_back({end - 1, bytes});
  if (copies_) departures_.push_back({p, end, touched_[p]});
}

// Sets live_; the peak.
byte_count device_stays::add_up(std::span<const event> events) {
  const std::size_t count = events.size();
  byte_count now = always_;
  for (std::size_t i = 0; i <= count; ++i) live_[i] = now += live_[i];
  live_.pop_back();
  for (const takeover& t : takeovers_) live_[t.at] -= t.bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const event& e = events[i];
    if (e.what == verb::compute) live_[i] += costs_.workspace_of(e);
  }
  return live_.empty() ? 0 : *std::ranges::max_element(live_);
}

}  // namespace um
