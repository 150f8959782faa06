#include "schedule/event_list.hpp"

#include <algorithm>
#include <utility>

namespace um {

void add_to(list_figures& all, const list_figures& one) {
  all.computing += one.computing;
  all.again += one.again;
  all.fetched += one.fetched;
  all.fetches += one.fetches;
  all.transfers += one.transfers;
  all.events += one.events;
}
void take_from(list_figures& all, const list_figures& one) {
  all.computing -= one.computing;
  all.again -= one.again;
  all.fetched -= one.fetched;
  all.fetches -= one.fetches;
  all.transfers -= one.transfers;
  all.events -= one.events;
}

event_list::event_list(const use_table& uses, event_builder& events, forecaster& costs)
    : uses_(uses),
      build_(events),
      costs_(costs),
      list_(uses.order.size()),
      again_before_(uses.order.size()),
      live_(uses.order.size()),
      before_(uses.parts.size(), 0) {}

void event_list::restart(std::span<const decision> decisions, const std::vector<bool>& staged,
                         byte_count budget) {
  part_states& states = build_.states();
  build_.set(decisions, staged);
  for (auto& all : again_before_) all.clear();
  std::int64_t alive = 0;
  for (part_id p = 0; p < uses_.parts.size(); ++p) {
    const part_state s = build_.initial(p, staged[uses_.parts[p].what]);
    states.forget(p, s);
    if ((s & takes_room) != 0) alive += static_cast<std::int64_t>(uses_.parts[p].bytes);
  }
  now_ = {};
  std::vector<live_tree::events_live> live(uses_.order.size());
  std::vector<std::int64_t> before(uses_.order.size());
  for (position at = 0; at < uses_.end(); ++at) {
    const auto i = static_cast<std::size_t>(at);
    states.begin_step(at);
    before[i] = alive;
    const std::span<const event> made = build_.step(at);
    fill(list_[i], made, staged);
    add_to(now_, list_[i].sums);
    note_again(list_[i], at, true);
    live[i] = list_[i].live;
    for (const auto& [p, was] : states.seen()) {
      const part_state is = states.of(p);
      if (is == was) continue;
      states.note(p, at, was, is);
      const int here = ((is & takes_room) != 0 ? 1 : 0) - ((was & takes_room) != 0 ? 1 : 0);
      alive += here * static_cast<std::int64_t>(uses_.parts[p].bytes);
    }
  }
  live_.assign(std::move(live), before);
  count_beyond(budget);
}

void event_list::count_beyond(byte_count budget) {
  budget_ = budget;
  const excess_of all = live_.over(0, uses_.end(), 0, static_cast<std::int64_t>(budget));
  now_.peak = static_cast<byte_count>(all.peak);
  now_.over = all.over;
}

void event_list::fill(block& b, std::span<const event> made, const std::vector<bool>& staged) {
  for (const auto& [p, was] : build_.states().seen()) before_[p] = was;
  b.events.assign(made.begin(), made.end());
  const std::span<const byte_count> live =
      costs_.live_within(b.events, staged, [&](part_id p) { return before_[p]; });
  b.live.assign(live.begin(), live.end());
  b.sums = {};
  b.sums.events = static_cast<std::int64_t>(made.size());
  for (const event& e : b.events) {
    if (e.what == verb::compute) {
      const nanoseconds time = costs_.time_of(e);
      b.sums.computing += time;
      if (e.again) b.sums.again += time;
    } else if (e.what != verb::discard) {
      ++b.sums.transfers;
      if (e.what == verb::evict) continue;
      ++b.sums.fetches;
      b.sums.fetched += uses_.parts[e.which].bytes;
    }
  }
}

void event_list::exchange(position at, block& other, std::int64_t before) {
  block& mine = list_[static_cast<std::size_t>(at)];
  note_again(mine, at, false);
  std::swap(mine, other);
  note_again(mine, at, true);
  live_.replace(at, mine.live, before);
}

void event_list::note_again(const block& b, position at, bool there) {
  for (const event& e : b.events) {
    if (e.what != verb::compute || !e.again) continue;
    std::vector<position>& all = again_before_[e.which];
    const auto x = std::ranges::lower_bound(all, at);
    const bool known = x != all.end() && *x == at;
    if (there && !known) all.insert(x, at);
    if (!there && known) all.erase(x);
  }
}

position event_list::peak() const {
  const position at = live_.first_with(static_cast<std::int64_t>(now_.peak));
  if (at >= uses_.end()) return uses_.end() - 1;
  const block& b = list_[static_cast<std::size_t>(at)];
  const std::int64_t before = live_.before(at);
  for (std::size_t i = 0; i < b.events.size(); ++i) {
    if (before + b.live[i] >= static_cast<std::int64_t>(now_.peak)) return at;
    if (b.events[i].what == verb::compute && !b.events[i].again) break;
  }
  return std::min(at + 1, uses_.end() - 1);
}

}  // namespace um
