#include "schedule/room.hpp"

#include <algorithm>

namespace um {
namespace {

class fitting {
 public:
  fitting(event_builder& builder, const use_table& uses, const std::vector<gap>& gaps, forecaster& costs,
          byte_count room, std::vector<decision>& decisions)
      : uses_(uses), gaps_(gaps), costs_(costs), builder_(builder), room_(room), decisions_(decisions) {
    for (std::uint32_t x = 0; x < gaps.size(); ++x) {
      if (decisions[x].what == choice::swap) swapped_.push_back(x);
      wish_.push_back(decisions[x].back);
    }
  }

  room_found run() {
    hold_least();
    if (found_.peak > room_ || swapped_.empty()) return found_;
    const std::vector<decision> least = decisions_;
    const std::vector<byte_count> live = live_;
    // Events can differ from what was held least: where that takes more than was counted, again with less.
    const byte_count room = room_;
    for (int tries = 0; tries < 4; ++tries) {
      hold_until_copied();
      take_early();
      const prediction held = memory_now();
      if (held.peak <= room) {
        found_.last_forecast = held;
        return found_;
      }
      room_ -= std::min(room_, held.peak - room);
      decisions_ = least;
      live_ = live;
      found_.stalled.clear();
    }
    return found_;
  }

 private:
  byte_count bytes_of(std::uint32_t x) const { return uses_.parts[gaps_[x].part].bytes; }
  byte_count& live(position at) { return live_[static_cast<std::size_t>(at)]; }
  void hold(std::uint32_t x, position from, position to) {
    for (position q = from; q < to; ++q) live(q) += bytes_of(x);
  }

  void hold_least() {
    for (const std::uint32_t x : swapped_) decisions_[x] = {choice::swap, gaps_[x].last, gaps_[x].next};
    for (int tries = 0; tries < 4 && look(); ++tries) {
    }
  }

  prediction memory_now() {
    const std::vector<bool> staged = staged_tensors(uses_, gaps_, decisions_);
    return costs_.memory_of(builder_.build(decisions_, staged), staged);
  }

  // Sets live_, and `back` of what is fetched earlier than its own use; whether there was any.
  bool look() {
    const std::vector<bool> staged = staged_tensors(uses_, gaps_, decisions_);
    const std::span<const event> events = builder_.build(decisions_, staged);
    found_.peak = costs_.memory_of(events, staged).peak;
    live_ = live_at_positions(uses_, events, costs_.live());
    found_.at = static_cast<position>(std::ranges::max_element(live_) - live_.begin());
    std::vector<bool> fetched(uses_.parts.size(), false);
    bool earlier = false;
    position next = 0;
    found_.again = 0;
    for (const event& e : events) {
      if (e.again) found_.again += costs_.time_of(e);
      if (e.what == verb::prefetch && !fetched[e.which]) {
        fetched[e.which] = true;
        earlier = fetch(e.which, next) || earlier;
      }
      if (e.what == verb::compute && static_cast<position>(e.which) == next) ++next;
    }
    return earlier;
  }
  bool fetch(part_id p, position at) {
    const auto part = [&](std::uint32_t x) { return gaps_[x].part; };
    for (auto x = std::ranges::lower_bound(swapped_, p, {}, part); x != swapped_.end() && part(*x) == p;
         ++x) {
      if (gaps_[*x].last >= at || decisions_[*x].back <= at) continue;
      decisions_[*x].back = at;
      return true;
    }
    return false;
  }

  struct pending {
    std::uint32_t gap = 0;
    nanoseconds end = 0;
  };

  void hold_until_copied() {
    std::vector<std::vector<std::uint32_t>> leaving(uses_.order.size());
    for (const std::uint32_t x : swapped_) {
      if (gaps_[x].last >= 0 && !gaps_[x].at_home)
        leaving[static_cast<std::size_t>(gaps_[x].last)].push_back(x);
    }
    std::vector<pending> queue;
    byte_count held = 0;
    nanoseconds now = 0, link = 0;
    for (position q = 0; q < uses_.end(); ++q) {
      const auto let_go = [&](const pending& one) {
        decisions_[one.gap].leave = q - 1;
        held -= bytes_of(one.gap);
        hold(one.gap, gaps_[one.gap].last + 1, std::min(q, decisions_[one.gap].back));
        return true;
      };
      std::erase_if(queue, [&](const pending& one) {
        return (one.end <= now || decisions_[one.gap].back <= q) && let_go(one);
      });
      while (!queue.empty() && live(q) + held > room_) {
        now = std::max(now, queue.front().end);
        found_.stalled.push_back(queue.front().gap);
        let_go(queue.front());
        queue.erase(queue.begin());
      }
      now += costs_.time_of(q);
      for (const std::uint32_t x : leaving[static_cast<std::size_t>(q)]) {
        link = std::max(link, now) + costs_.time_of_copy(bytes_of(x), lane::to_host);
        queue.push_back({x, link});
        held += bytes_of(x);
      }
    }
    for (const pending& one : queue) decisions_[one.gap].leave = uses_.end() - 1;
  }

  void take_early() {
    std::vector<std::uint32_t> coming;
    for (const std::uint32_t x : swapped_) {
      if (gaps_[x].next < uses_.end()) coming.push_back(x);
    }
    std::ranges::stable_sort(coming, {}, [&](std::uint32_t x) { return decisions_[x].back; });
    position before = 0;
    for (const std::uint32_t x : coming) {
      const position need = decisions_[x].back;
      const position first = std::max({wish_[x], decisions_[x].leave + 1, gaps_[x].last + 1, before});
      position q = need;
      while (q > first && live(q - 1) + bytes_of(x) <= room_) --q;
      decisions_[x].back = before = q;
      hold(x, q, need);
    }
  }

  const use_table& uses_;
  const std::vector<gap>& gaps_;
  forecaster& costs_;
  event_builder& builder_;
  byte_count room_;
  std::vector<decision>& decisions_;
  std::vector<std::uint32_t> swapped_;
  std::vector<position> wish_;    // per gap
  std::vector<byte_count> live_;  // per position
  room_found found_;
};

}  // namespace

std::vector<byte_count> live_at_positions(const use_table& uses, std::span<const event> events,
                                          std::span<const byte_count> live) {
  std::vector<byte_count> most(uses.order.size(), 0);
  position next = 0;  // the first that has not been computed yet
  for (std::size_t i = 0; i < events.size(); ++i) {
    const bool behind = events[i].what == verb::evict || events[i].what == verb::discard;
    const position at = std::min(behind && next > 0 ? next - 1 : next, uses.end() - 1);
    byte_count& here = most[static_cast<std::size_t>(at)];
    here = std::max(here, live[i]);
    if (events[i].what == verb::compute && static_cast<position>(events[i].which) == next) ++next;
  }
  return most;
}

room_found fit_transfers(const graph& g, const use_table& uses, const std::vector<gap>& gaps,
                         forecaster& costs, byte_count room, std::vector<decision>& decisions) {
  event_builder builder(g, uses, gaps);
  return fit_transfers(builder, uses, gaps, costs, room, decisions);
}

room_found fit_transfers(event_builder& builder, const use_table& uses, const std::vector<gap>& gaps,
                         forecaster& costs, byte_count room, std::vector<decision>& decisions) {
  return fitting(builder, uses, gaps, costs, room, decisions).run();
}

}  // namespace um
