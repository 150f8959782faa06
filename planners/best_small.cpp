#include "planners/best_small.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "planners/best_polish.hpp"
#include "planners/best_repair.hpp"
#include "planners/best_search.hpp"
#include "planners/best_spaces.hpp"

namespace um {
namespace {
// Percent by which the forecast differs at most from the placed plan's time, for most networks of few
// operators. Seen on eleven random graphs. Outliers exist: forecast 2,366 us, placed 1,807 us.
constexpr nanoseconds forecast_error = 15;

constexpr nanoseconds no_time = std::numeric_limits<nanoseconds>::max();

// Search time grows with the computes of all splits together. AlexNet with batch 32 has 3,400 computes,
// random graphs mostly fewer than 3,000. When each rung was searched, AlexNet with batch 512 took eight times
// as long, and its plan at ratio 1.5 took 4.42 ms instead of 3.91 ms.
constexpr std::size_t max_computes_of_tiny = 3000, computes_per_stride = 1000;

// Computes of all orders together.
std::size_t count_computes(const graph& g, std::span<const batch_split> splits) {
  std::size_t computes = 0;
  for (const batch_split& x : splits) {
    if (x.may_swap && x.waits == memory_waits::for_all) computes += make_order(g, x.loops).size();
  }
  return computes;
}

class rung_searcher {
 public:
  rung_searcher(const problem& p, const placer& place, std::span<const batch_split> splits,
                std::span<const rung> rungs, const rival_planner& rivals, std::uint64_t work)
      : p_(p),
        place_(place),
        splits_(splits),
        rungs_(rungs),
        rivals_(rivals),
        work_(work),
        best_forecasts_(rungs.size(), no_time),
        solutions_(splits.size()),
        larger_plans_(rungs.size()) {
    for (const op_cost& c : p.operator_costs) compute_time_ += c.time;
    split_stride_ = 1 + count_computes(p.network, splits) / computes_per_stride;
  }

  std::optional<placed_plan> run() {
    solve_ladders(work_ / 3, false);
    solve_ladders(work_ * 2 / 3, true);
    split_order_ = fastest_splits_first();
    while (largest_rung_ < rungs_.size() && !is_within(largest_rung_)) ++largest_rung_;
    for (std::size_t j = rungs_.size(); j-- > 0 && is_within(j) && !is_near_optimal();) search_rung(j);
    std::optional<placed_plan> own = place_fastest();
    if (is_near_optimal()) return own;
    std::optional<placed_plan> rival = fastest_rival(own ? own->time : no_time);
    return rival ? rival : own;
  }

 private:
  struct candidate {
    std::size_t split = 0;
    placed_decisions what;
  };
  using times = std::vector<nanoseconds>;

  bool is_within(std::size_t j) const { return rungs_[j].budget <= p_.budget; }
  bool is_near_optimal() const {
    return best_time_ <= compute_time_ + compute_time_ * near_optimal_permille / 1000;
  }

  // --- decisions for all rungs, compared by forecast ---

  // Solves the ladder for each split, or improves the solutions. Later splits get the work that one split
  // leaves.
  void solve_ladders(std::uint64_t left, bool again) {
    constexpr std::size_t max_tries_per_gap_class = 300;
    std::array<times, 2> best_at{best_forecasts_, best_forecasts_};  // one for each value of memory_waits
    for (std::size_t s = 0; s < splits_.size() && again; ++s) update_best_forecasts(best_at, s);
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      search_space& of = spaces_.of(s);
      const auto begun = of.work();
      const effort most{max_tries_per_gap_class, left / std::min<std::size_t>(splits_.size() - s, 3)};
      const times& so_far = best_at.at(static_cast<std::size_t>(splits_[s].waits));
      if (again) {
        improve_ladder(of, rungs_, so_far, most, solutions_[s]);
      } else {
        solutions_[s] = solve_ladder(of, rungs_, so_far, most);
      }
      left -= std::min(left, of.work() - begun);
      update_best_forecasts(best_at, s);
    }
    for (std::size_t j = 0; j < rungs_.size(); ++j)
      best_forecasts_[j] = std::min(best_at[0][j], best_at[1][j]);
  }

  void update_best_forecasts(std::array<times, 2>& best_at, std::size_t split) const {
    times& at = best_at.at(static_cast<std::size_t>(splits_[split].waits));
    for (std::size_t j = 0; j < rungs_.size(); ++j) {
      if (solutions_[split][j]) at[j] = std::min(at[j], solutions_[split][j]->score.forecast.time);
    }
  }

  // --- placed plans, rung by rung: a rung depends on the rungs of smaller budgets alone ---

  // Splits in falling order of the number of rungs at which their forecast is within 1 % of the best.
  std::vector<std::size_t> fastest_splits_first() const {
    std::vector<std::pair<std::size_t, std::size_t>> all;
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      std::size_t slow = 0;
      for (std::size_t j = 0; j < rungs_.size(); ++j) {
        const std::optional<solution>& x = solutions_[s][j];
        if (!x || x->score.forecast.time > best_forecasts_[j] + best_forecasts_[j] / 100) ++slow;
      }
      all.emplace_back(slow, s);
    }
    std::ranges::sort(all);
    std::vector<std::size_t> splits;
    for (const auto& [slow, s] : all) splits.push_back(s);
    return splits;
  }

  bool can_be_faster(const std::optional<solution>& x) const {
    return !x || x->score.forecast.time - x->score.forecast.time / 100 * forecast_error < best_time_;
  }

  // Places the solutions of the ladder for this rung, searches each split again, then the fastest with more
  // effort.
  void search_rung(std::size_t j) {
    const byte_count budget = rungs_[j].budget;
    if (p_.evicted_by == evictor::driver) update_best_time(budget);
    const nanoseconds before = best_time_;
    if (larger_plans_[j]) accept_if_faster(std::move(*larger_plans_[j]));
    for (const std::size_t s : split_order_) place_ladder_solution(s, j);
    search_splits(j, before);
    if (best_) {
      const std::uint64_t work = work_ / (best_time_ < before ? 16 : 64);
      accept_if_faster({best_->split, polish(spaces_.of(best_->split), place_, budget, best_->what, work)});
    }
  }

  // Times the best plan again with this budget: if the driver evicts, a plan may be slower with more memory.
  void update_best_time(byte_count budget) {
    const auto time = [&](const memory_plan& x) {
      const std::optional<placed_plan> now = place_.place_finished(x, budget);
      return now ? now->time : no_time;
    };
    if (best_) best_time_ = best_->what.placed.time = time(best_->what.placed.plan);
  }

  // Searches every split, or every split_stride_-th in turn, with little effort, then the fastest one with
  // more. If none has a plan, the first promising one that was cut off gets more.
  void search_splits(std::size_t j, nanoseconds before) {
    const byte_count budget = rungs_[j].budget;
    const std::uint64_t work = work_ / 16;
    std::size_t fastest = best_ ? best_->split : splits_.size();
    // Plans whose forecast is slower by no more than its error are placed, too.
    nanoseconds time_to_beat =
        best_time_ == no_time ? no_time : best_time_ + best_time_ / 100 * forecast_error;
    std::optional<std::size_t> cut_off;
    const auto decide_for = [&](std::size_t split, const effort_limits& by) {
      search_space& of = spaces_.of(split);
      if (of.min_memory() > budget) return;
      repair_result found = decide_and_place(of, place_, {budget, budget, time_to_beat}, by);
      if (!found.best && !cut_off && found.is_cut_off && found.is_promising) cut_off = split;
      if (!found.best) return;
      time_to_beat = found.best->placed.time;
      fastest = split;
      accept_if_faster({split, std::move(*found.best)});
    };
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      if ((j + s) % split_stride_ != 0 || !can_be_faster(solutions_[s][j])) continue;
      decide_for(s, quick_effort(work / splits_.size()));
    }
    if (fastest == splits_.size() && cut_off) decide_for(*cut_off, full_effort(work / 2));
    if (fastest < splits_.size() && (best_time_ < before || j % split_stride_ == 0))
      decide_for(fastest, full_effort(work));
  }

  void place_ladder_solution(std::size_t split, std::size_t j) {
    const std::optional<solution>& x = solutions_[split][j];
    // Orders that take long to place are placed at some rungs only.
    const std::uint64_t each = work_of_placing(spaces_.of(split)) * splits_.size();
    const std::size_t step = 1 + rungs_.size() * each / (2 * work_);
    if (j % step != 0 || !x || !can_be_faster(x)) return;
    if (!spaces_.of(split).decides_by_budget() && j + step < rungs_.size() && solutions_[split][j + step] &&
        solutions_[split][j + step]->treatments == x->treatments)
      return;
    place_or_shrink(split, j, *x);
  }

  // Places the solution at its rung; if packing needs more, decides again with a lower limit.
  void place_or_shrink(std::size_t split, std::size_t j, solution now) {
    constexpr int max_placed = 3;
    const byte_count budget = rungs_[j].budget;
    byte_count live_limit = budget;
    search_space& of = spaces_.of(split);
    for (int i = 0; i < max_placed && now.score.excess == 0 && can_be_faster(now); ++i) {
      std::vector<decision> decisions = of.decisions_for(now.treatments, live_limit);
      std::optional<placed_plan> placed = place_.place_decided(of.plan(decisions), budget);
      const byte_count device_bytes = placed ? placed->device_bytes : live_limit + live_limit / 20;
      if (placed) offer(split, j, {now.treatments, std::move(decisions), std::move(*placed)});
      if (device_bytes <= budget) return;
      live_limit -= std::min(live_limit, (device_bytes - budget) * 3 / 4 + budget / 1000);
      now = decide_again(of, live_limit, {4, work_ / 64}, now);
    }
  }

  // Accepts a plan for rung `j` or, if it is too large, stores it for the smallest rung in which it fits.
  void offer(std::size_t split, std::size_t j, placed_decisions x) {
    if (x.placed.device_bytes <= rungs_[j].budget) return accept_if_faster({split, std::move(x)});
    while (j > 0 && rungs_[j].budget < x.placed.device_bytes) --j;
    if (rungs_[j].budget < x.placed.device_bytes || !is_within(j)) return;
    auto placed = place_.place_decided(spaces_.of(split).plan(x.decisions), rungs_[j].budget);
    if (!placed || placed->device_bytes > rungs_[j].budget) return;
    x.placed = std::move(*placed);
    if (!larger_plans_[j] || x.placed.time < larger_plans_[j]->what.placed.time)
      larger_plans_[j] = {split, std::move(x)};
  }

  void accept_if_faster(candidate x) {
    if (x.what.placed.time >= best_time_) return;
    best_time_ = x.what.placed.time;
    best_plans_.push_back(x.what.placed.plan);
    best_ = std::move(x);
  }

  // Asks rivals for all rungs within the budget.
  std::optional<placed_plan> fastest_rival(nanoseconds time_to_beat) const {
    std::vector<byte_count> budgets;
    for (std::size_t j = largest_rung_; j < rungs_.size(); ++j) budgets.push_back(rungs_[j].budget);
    return rivals_(budgets, time_to_beat);
  }

  // The fastest plan in the exact budget. If the driver evicts, times depend on the budget.
  std::optional<placed_plan> place_fastest() {
    std::optional<placed_plan> best;
    for (memory_plan& x : best_plans_) {
      std::optional<placed_plan> now = place_.place_finished(std::move(x), p_.budget);
      if (now && now->device_bytes <= p_.budget && (!best || now->time < best->time)) best = std::move(now);
    }
    return best;
  }

  const problem& p_;
  const placer& place_;
  std::span<const batch_split> splits_;
  std::span<const rung> rungs_;
  const rival_planner& rivals_;
  std::uint64_t work_;
  std::size_t split_stride_ =
      1;  // a rung searches every split_stride_-th split; the next rung searches the following ones
  std::size_t largest_rung_ = 0;  // index of the largest rung within the budget
  nanoseconds compute_time_ = 0;  // sum over all operators
  times best_forecasts_;          // per rung: the best forecast time of all splits
  std::vector<std::vector<std::optional<solution>>> solutions_;  // per split and rung
  std::vector<std::size_t> split_order_;                         // order in which splits are tried
  std::vector<std::optional<candidate>>
      larger_plans_;  // per rung: the fastest plan made for a smaller rung that fits only from this rung on
  std::optional<candidate> best_;        // the fastest plan so far
  nanoseconds best_time_ = no_time;      // time of best_
  std::vector<memory_plan> best_plans_;  // all plans that were the fastest at some rung
  split_spaces spaces_{p_, splits_};
};

}  // namespace

bool is_tiny(const problem& p) {
  if (p.network.ops.size() > tiny_network) return false;
  std::string why;
  const bool same_bits = p.knobs.at("bits") == 1;
  return count_computes(p.network, splits_of(p, {.same_bits = same_bits, .budget_independent = true}, why)) <=
         max_computes_of_tiny;
}

std::optional<placed_plan> plan_small_network(const problem& p, const placer& place,
                                              std::span<const batch_split> splits,
                                              std::span<const rung> rungs, const rival_planner& rivals,
                                              std::uint64_t work) {
  return rung_searcher(p, place, splits, rungs, rivals, work).run();
}

}  // namespace um
