#include <algorithm>
#include <optional>

#include "core/lower.hpp"
#include "planners/feature_maps.hpp"
#include "planners/planners.hpp"
#include "planners/swap_scores.hpp"
#include "planners/within.hpp"
#include "schedule/orders.hpp"
#include "schedule/transfers.hpp"

namespace um {
namespace {

class swapping {
 public:
  explicit swapping(const problem& p)
      : p_(p),
        uses_(make_use_table(p.network, graph_order(p.network))),
        gaps_(find_gaps(p.network, uses_)),
        forecaster_(p, uses_) {
    for (position at = 0; at < uses_.end(); ++at)
      starts_.push_back(starts_.back() + forecaster_.compute_time(at));
    const std::vector<decision> kept(gaps_.size());
    const std::vector<event> events = build_events(p.network, uses_, gaps_, kept);
    forecaster_.forecast_memory(events, find_staged_tensors(uses_, gaps_, kept));
    load_ = live_at_positions(uses_, events, forecaster_.live_bytes());
    find_candidates();
  }

  // The fastest that packs; where none does, the fastest.
  memory_plan plan(byte_count limit) {
    std::vector<way> ways = ways_within(limit);
    if (ways.empty()) throw infeasible(too_small(p_, "autoswap", least_));
    std::ranges::stable_sort(ways, {}, &way::time);
    problem unlimited = p_;
    unlimited.budget = std::numeric_limits<byte_count>::max();
    constexpr std::size_t packed_at_once = 8;  // and those of one score alone, whatever they take
    for (std::size_t i = 0; i < ways.size(); ++i) {
      if (i >= packed_at_once && !ways[i].of_one_score) continue;
      memory_plan plan = make_plan(p_.network, uses_, gaps_, ways[i].decisions);
      if (lower(unlimited, plan, packers::smartpool).device_arena_bytes <= p_.budget) return plan;
    }
    return make_plan(p_.network, uses_, gaps_, ways.front().decisions);
  }

 private:
  byte_count bytes_of(std::uint32_t x) const { return uses_.parts[gaps_[x].part].bytes; }

  // Blocks with accesses before and behind the peak.
  void find_candidates() {
    const auto peak = static_cast<position>(std::ranges::max_element(load_) - load_.begin());
    const bool can_move = p_.target.link_to_device_bytes_per_s > 0 && p_.target.link_to_host_bytes_per_s > 0;
    for (std::uint32_t x = 0; x < gaps_.size() && can_move; ++x) {
      const gap& e = gaps_[x];
      if (e.last_use >= 0 && e.next_use < uses_.end() && e.last_use < peak && peak < e.next_use &&
          bytes_of(x) >= smallest_swapped)
        candidates_.push_back(x);
    }
    std::vector<absence> absences;
    for (const std::uint32_t x : candidates_) {
      const nanoseconds copies = forecaster_.copy_time(bytes_of(x), lane::to_host) +
                                 forecaster_.copy_time(bytes_of(x), lane::to_device);
      absences.push_back({static_cast<std::size_t>(gaps_[x].last_use + 1),
                          static_cast<std::size_t>(gaps_[x].next_use), bytes_of(x),
                          static_cast<double>(copies)});
    }
    chooser_.emplace(load_, std::vector<double>(starts_.begin(), starts_.end()), std::move(absences));
  }

  struct way {
    nanoseconds time = 0;
    bool of_one_score = false;
    std::vector<decision> decisions;
  };

  // Those that keep the limit, different ones.
  std::vector<way> ways_within(byte_count limit) {
    const auto which = static_cast<std::size_t>(p_.knobs.at("score"));
    const std::vector<swap_weights> all = swap_weight_vectors();
    std::vector<way> ways;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (which < swap_scores && i != which) continue;
      way w{0, i < swap_scores, std::vector<decision>(gaps_.size())};
      for (const std::size_t c : chooser_->choose(all[i], limit))
        w.decisions[candidates_[c]].choice = gap_choice::swap;
      const std::optional<nanoseconds> time = schedule(w.decisions, limit);
      if (!time) continue;
      w.time = *time;
      const auto same = [&](const way& other) { return other.decisions == w.decisions; };
      if (std::ranges::none_of(ways, same)) ways.push_back(std::move(w));
    }
    return ways;
  }

  // Copies out in the order of access, copies in as late as they are there in time; the time with both, none
  // if the limit cannot be kept.
  std::optional<nanoseconds> schedule(std::vector<decision>& decisions, byte_count limit) {
    place_transfers(forecaster_, uses_, gaps_, decisions);
    const fit_result found = fit_transfers(p_.network, uses_, gaps_, forecaster_, limit, decisions);
    least_ = std::min(least_, found.peak);
    if (found.peak > limit) return {};
    const std::vector<event> events = build_events(p_.network, uses_, gaps_, decisions);
    return forecaster_.forecast(events, find_staged_tensors(uses_, gaps_, decisions)).time;
  }

  const problem& p_;
  use_table uses_;
  std::vector<gap> gaps_;
  forecaster forecaster_;
  std::vector<nanoseconds> starts_{0};     // start of every position if there were no copies
  std::vector<byte_count> load_;           // at every position, nothing swapped
  std::vector<std::uint32_t> candidates_;  // gaps
  std::optional<swap_chooser> chooser_;
  byte_count least_ = std::numeric_limits<byte_count>::max();  // the least load that was come to
};

}  // namespace

memory_plan plan_autoswap(const problem& p) {
  swapping s(p);
  return plan_within(p, packers::smartpool, "autoswap", [&](byte_count room) { return s.plan(room); });
}

}  // namespace um
