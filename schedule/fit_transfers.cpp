#include "schedule/fit_transfers.hpp"

#include <algorithm>

namespace um {
namespace {

class transfer_fitter {
 public:
  transfer_fitter(event_builder& builder, const use_table& uses, const std::vector<gap>& gaps,
                  forecaster& costs, byte_count room, std::vector<decision>& decisions)
      : uses_(uses),
        gaps_(gaps),
        forecaster_(costs),
        builder_(builder),
        budget_(room),
        decisions_(decisions) {
    for (std::uint32_t x = 0; x < gaps.size(); ++x) {
      if (decisions[x].choice == gap_choice::swap) swapped_.push_back(x);
      earliest_return_.push_back(decisions[x].return_before);
    }
  }

  fit_result fit() {
    reserve_minimum_memory();
    if (result_.peak > budget_ || swapped_.empty()) return result_;
    const std::vector<decision> least = decisions_;
    const std::vector<byte_count> live = live_bytes_;
    // The events may need more memory than was reserved. If so, tries again with a smaller budget.
    const byte_count room = budget_;
    for (int tries = 0; tries < 4; ++tries) {
      reserve_until_copied();
      move_returns_earlier();
      const prediction held = forecast_memory();
      if (held.peak <= room) {
        result_.last_forecast = held;
        return result_;
      }
      budget_ -= std::min(budget_, held.peak - room);
      decisions_ = least;
      live_bytes_ = live;
      result_.stalled_gaps.clear();
    }
    return result_;
  }

 private:
  byte_count bytes_of(std::uint32_t x) const { return uses_.parts[gaps_[x].part].bytes; }
  byte_count& live_at(position at) { return live_bytes_[static_cast<std::size_t>(at)]; }
  void reserve(std::uint32_t x, position from, position to) {
    for (position q = from; q < to; ++q) live_at(q) += bytes_of(x);
  }

  void reserve_minimum_memory() {
    for (const std::uint32_t x : swapped_)
      decisions_[x] = {gap_choice::swap, gaps_[x].last_use, gaps_[x].next_use};
    for (int tries = 0; tries < max_return_attempts && update_live_bytes_and_returns(); ++tries) {
    }
  }

  prediction forecast_memory() {
    const std::vector<bool> staged_tensors = find_staged_tensors(uses_, gaps_, decisions_);
    return forecaster_.forecast_memory(builder_.build(decisions_, staged_tensors), staged_tensors);
  }

  // Updates live_bytes_. Where a recomputation fetches a part before its decided return, moves the return to
  // that position. Returns whether any return moved.
  bool update_live_bytes_and_returns() {
    const std::vector<bool> staged_tensors = find_staged_tensors(uses_, gaps_, decisions_);
    const std::span<const event> events = builder_.build(decisions_, staged_tensors);
    result_.peak = forecaster_.forecast_memory(events, staged_tensors).peak;
    live_bytes_ = live_at_positions(uses_, events, forecaster_.live_bytes());
    result_.peak_position =
        static_cast<position>(std::ranges::max_element(live_bytes_) - live_bytes_.begin());
    std::vector<bool> fetched(uses_.parts.size(), false);
    bool earlier = false;
    position next = 0;
    result_.recompute_time = 0;
    for (const event& e : events) {
      if (e.is_recompute) result_.recompute_time += forecaster_.compute_time(e);
      if (e.kind == event_kind::prefetch && !fetched[e.subject]) {
        fetched[e.subject] = true;
        earlier = move_return_to(e.subject, next) || earlier;
      }
      if (e.kind == event_kind::compute && static_cast<position>(e.subject) == next) ++next;
    }
    return earlier;
  }
  bool move_return_to(part_id p, position at) {
    const auto part = [&](std::uint32_t x) { return gaps_[x].part; };
    for (auto x = std::ranges::lower_bound(swapped_, p, {}, part); x != swapped_.end() && part(*x) == p;
         ++x) {
      if (gaps_[*x].last_use >= at || decisions_[*x].return_before <= at) continue;
      decisions_[*x].return_before = at;
      return true;
    }
    return false;
  }

  struct pending_copy {
    std::uint32_t gap = 0;
    nanoseconds end_time = 0;
  };

  void reserve_until_copied() {
    std::vector<std::vector<std::uint32_t>> leaving(uses_.order.size());
    for (const std::uint32_t x : swapped_) {
      if (gaps_[x].last_use >= 0 && !gaps_[x].has_host_copy)
        leaving[static_cast<std::size_t>(gaps_[x].last_use)].push_back(x);
    }
    std::vector<pending_copy> queue;
    byte_count held = 0;
    nanoseconds now = 0, link = 0;
    for (position q = 0; q < uses_.end(); ++q) {
      const auto release = [&](const pending_copy& one) {
        decisions_[one.gap].leave_after = q - 1;
        held -= bytes_of(one.gap);
        reserve(one.gap, gaps_[one.gap].last_use + 1, std::min(q, decisions_[one.gap].return_before));
        return true;
      };
      std::erase_if(queue, [&](const pending_copy& one) {
        return (one.end_time <= now || decisions_[one.gap].return_before <= q) && release(one);
      });
      while (!queue.empty() && live_at(q) + held > budget_) {
        now = std::max(now, queue.front().end_time);
        result_.stalled_gaps.push_back(queue.front().gap);
        release(queue.front());
        queue.erase(queue.begin());
      }
      now += forecaster_.compute_time(q);
      for (const std::uint32_t x : leaving[static_cast<std::size_t>(q)]) {
        link = std::max(link, now) + forecaster_.copy_time(bytes_of(x), lane::to_host);
        queue.push_back({x, link});
        held += bytes_of(x);
      }
    }
    for (const pending_copy& one : queue) decisions_[one.gap].leave_after = uses_.end() - 1;
  }

  void move_returns_earlier() {
    std::vector<std::uint32_t> coming;
    for (const std::uint32_t x : swapped_) {
      if (gaps_[x].next_use < uses_.end()) coming.push_back(x);
    }
    std::ranges::stable_sort(coming, {}, [&](std::uint32_t x) { return decisions_[x].return_before; });
    position before = 0;
    for (const std::uint32_t x : coming) {
      const position need = decisions_[x].return_before;
      const position first =
          std::max({earliest_return_[x], decisions_[x].leave_after + 1, gaps_[x].last_use + 1, before});
      position q = need;
      while (q > first && live_at(q - 1) + bytes_of(x) <= budget_) --q;
      decisions_[x].return_before = before = q;
      reserve(x, q, need);
    }
  }

  const use_table& uses_;
  const std::vector<gap>& gaps_;
  forecaster& forecaster_;
  event_builder& builder_;
  byte_count budget_;
  std::vector<decision>& decisions_;
  std::vector<std::uint32_t> swapped_;
  std::vector<position> earliest_return_;  // per gap
  std::vector<byte_count> live_bytes_;     // per position
  fit_result result_;
};

}  // namespace

std::vector<byte_count> live_at_positions(const use_table& uses, std::span<const event> events,
                                          std::span<const byte_count> live_at_events) {
  std::vector<byte_count> most(uses.order.size(), 0);
  position next = 0;  // first position that is not computed yet
  for (std::size_t i = 0; i < events.size(); ++i) {
    const bool behind = events[i].kind == event_kind::evict || events[i].kind == event_kind::discard;
    const position at = std::min(behind && next > 0 ? next - 1 : next, uses.end() - 1);
    byte_count& here = most[static_cast<std::size_t>(at)];
    here = std::max(here, live_at_events[i]);
    if (events[i].kind == event_kind::compute && static_cast<position>(events[i].subject) == next) ++next;
  }
  return most;
}

fit_result fit_transfers(const graph& g, const use_table& uses, const std::vector<gap>& gaps,
                         forecaster& costs, byte_count room, std::vector<decision>& decisions) {
  event_builder builder(g, uses, gaps);
  return fit_transfers(builder, uses, gaps, costs, room, decisions);
}

fit_result fit_transfers(event_builder& builder, const use_table& uses, const std::vector<gap>& gaps,
                         forecaster& costs, byte_count room, std::vector<decision>& decisions) {
  return transfer_fitter(builder, uses, gaps, costs, room, decisions).fit();
}

}  // namespace um
