#include <algorithm>
#include <optional>
#include <set>

#include "planners/feature_maps.hpp"
#include "planners/planners.hpp"
#include "planners/swap_scores.hpp"
#include "planners/within.hpp"
#include "schedule/orders.hpp"
#include "schedule/transfers.hpp"

namespace um {
namespace {

class autoswap_planner {
 public:
  explicit autoswap_planner(const problem& p)
      : p_(p),
        uses_(make_use_table(p.network, graph_order(p.network))),
        gaps_(find_gaps(p.network, uses_)),
        forecaster_(p, uses_) {
    for (position at = 0; at < uses_.end(); ++at)
      start_times_.push_back(start_times_.back() + forecaster_.compute_time(at));
    const std::vector<decision> kept(gaps_.size());
    const std::vector<event> events = build_events(p.network, uses_, gaps_, kept);
    forecaster_.forecast_memory(events, find_staged_tensors(uses_, gaps_, kept));
    live_bytes_ = live_at_positions(uses_, events, forecaster_.live_bytes());
    find_candidates();
  }

  // The plan of the fastest choice that packs into the budget; if none does, of the fastest choice.
  memory_plan plan(byte_count limit) {
    std::vector<swap_choice> choices = choices_within(limit);
    if (choices.empty()) throw infeasible(budget_too_small_text(p_, "autoswap", min_peak_));
    std::ranges::stable_sort(choices, {}, &swap_choice::time);
    constexpr std::size_t packed_at_once = 8;  // of later choices, only those by a single score are packed
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (i >= packed_at_once && !choices[i].has_one_score) continue;
      memory_plan plan = make_plan(p_.network, uses_, gaps_, choices[i].decisions);
      if (packed_bytes(p_, plan, packers::smartpool) <= p_.budget) return plan;
    }
    return make_plan(p_.network, uses_, gaps_, choices.front().decisions);
  }

 private:
  byte_count bytes_of(std::uint32_t x) const { return uses_.parts[gaps_[x].part].bytes; }

  // Finds the gaps that span the peak and whose parts may be swapped.
  void find_candidates() {
    const auto peak = static_cast<position>(std::ranges::max_element(live_bytes_) - live_bytes_.begin());
    const bool can_move = has_link(p_.target);
    for (std::uint32_t x = 0; x < gaps_.size() && can_move; ++x) {
      const gap& e = gaps_[x];
      if (e.last_use >= 0 && e.next_use < uses_.end() && e.last_use < peak && peak < e.next_use &&
          bytes_of(x) >= smallest_swapped)
        candidates_.push_back(x);
    }
    std::vector<possible_absence> absences;
    for (const std::uint32_t x : candidates_) {
      const nanoseconds copies = forecaster_.copy_time(bytes_of(x), lane::to_host) +
                                 forecaster_.copy_time(bytes_of(x), lane::to_device);
      absences.push_back({static_cast<std::size_t>(gaps_[x].last_use + 1),
                          static_cast<std::size_t>(gaps_[x].next_use), bytes_of(x),
                          static_cast<double>(copies)});
    }
    chooser_.emplace(live_bytes_, std::vector<double>(start_times_.begin(), start_times_.end()),
                     std::move(absences));
  }

  struct swap_choice {
    nanoseconds time = 0;
    bool has_one_score = false;
    std::vector<decision> decisions;
  };

  // Distinct sets of swaps that keep the live bytes within the limit.
  std::vector<swap_choice> choices_within(byte_count limit) {
    const auto which = static_cast<std::size_t>(p_.knobs.at("score"));
    const std::vector<swap_weights> all = swap_weight_vectors();
    std::vector<swap_choice> choices;
    std::set<std::vector<std::size_t>> chosen;  // sets chosen so far, to skip equal ones
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (which < swap_scores && i != which) continue;
      swap_choice w{0, i < swap_scores, std::vector<decision>(gaps_.size())};
      std::vector<std::size_t> absent = chooser_->choose(all[i], limit);
      std::ranges::sort(absent);
      if (!chosen.insert(absent).second) continue;
      for (const std::size_t c : absent) w.decisions[candidates_[c]].choice = gap_choice::swap;
      const std::optional<nanoseconds> time = schedule_copies(w.decisions, limit);
      if (!time) continue;
      w.time = *time;
      const auto same = [&](const swap_choice& other) { return other.decisions == w.decisions; };
      if (std::ranges::none_of(choices, same)) choices.push_back(std::move(w));
    }
    return choices;
  }

  // Schedules copies out in the order of last use, and copies in as late as they arrive in time. Returns the
  // time; nothing if the live bytes exceed the limit.
  std::optional<nanoseconds> schedule_copies(std::vector<decision>& decisions, byte_count limit) {
    place_transfers(forecaster_, uses_, gaps_, decisions);
    if (time_lower_bound(p_, make_plan(p_.network, uses_, gaps_, decisions)) >= p_.time_to_beat) return {};
    const fit_result found = fit_transfers(p_.network, uses_, gaps_, forecaster_, limit, decisions);
    min_peak_ = std::min(min_peak_, found.peak);
    if (found.peak > limit) return {};
    const std::vector<event> events = build_events(p_.network, uses_, gaps_, decisions);
    return forecaster_.forecast(events, find_staged_tensors(uses_, gaps_, decisions)).time;
  }

  const problem& p_;
  use_table uses_;
  std::vector<gap> gaps_;
  forecaster forecaster_;
  std::vector<nanoseconds> start_times_{0};  // per position: start time without copies
  std::vector<byte_count> live_bytes_;       // per position: bytes alive without swaps
  std::vector<std::uint32_t> candidates_;    // indices of gaps
  std::optional<swap_chooser> chooser_;
  byte_count min_peak_ = std::numeric_limits<byte_count>::max();  // minimum peak of the choices so far
};

}  // namespace

memory_plan plan_autoswap(const problem& p) {
  autoswap_planner s(p);
  return plan_within(p, packers::smartpool, "autoswap", [&](byte_count room) { return s.plan(room); });
}

}  // namespace um
