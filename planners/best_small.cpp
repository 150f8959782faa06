#include "planners/best_small.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "planners/best_polish.hpp"
#include "planners/best_repair.hpp"
#include "planners/best_search.hpp"

namespace um {
namespace {

// For most networks of few operators the forecast differs from the placed time by at most this many percent.
// Seen on eleven random graphs. Outliers exist: 2,366 us forecast, 1,807 us placed.
constexpr nanoseconds forecast_error = 15;

constexpr nanoseconds never = std::numeric_limits<nanoseconds>::max();

class rung_search {
 public:
  rung_search(const problem& p, const placer& place, std::span<const batch_split> splits,
              std::span<const rung> rungs, std::uint64_t work)
      : p_(p),
        place_(place),
        splits_(splits),
        rungs_(rungs),
        work_(work),
        forecast_(rungs.size(), never),
        found_(splits.size()),
        placed_(rungs.size()) {}

  std::optional<placed_plan> run() {
    climb_all(work_ / 3, false);
    climb_all(work_ * 2 / 3, true);
    for (const std::size_t s : fastest_splits_first()) place_split(s);
    search_last_rungs();
    polish_all();
    return fastest();
  }

 private:
  struct candidate {
    std::size_t split = 0;
    placed_decisions what;
  };
  using times = std::vector<nanoseconds>;

  search_space& space_of(std::size_t split) {
    if (!space_ || split_ != split) {
      const batch_split& x = splits_[split];
      space_.reset();  // two would take twice the memory
      space_ = std::make_unique<search_space>(p_, make_order(p_.network, x.by), x.may_swap, x.waits);
      split_ = split;
    }
    return *space_;
  }
  bool is_within(std::size_t j) const { return rungs_[j].budget <= p_.budget; }

  // --- forecasts, of all rungs ---

  // Work that one split leaves goes to those that follow.
  void climb_all(std::uint64_t left, bool again) {
    constexpr std::size_t most_tries = 300;
    std::array<times, 2> best_at{forecast_, forecast_};  // per assumption about waits
    for (std::size_t s = 0; s < splits_.size() && again; ++s) note(best_at, s);
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      const auto begun = space_of(s).work();
      const effort most{most_tries, left / std::min<std::size_t>(splits_.size() - s, 3)};
      const times& so_far = best_at.at(static_cast<std::size_t>(splits_[s].waits));
      if (again) {
        climb_again(*space_, rungs_, so_far, most, found_[s]);
      } else {
        found_[s] = climb(*space_, rungs_, so_far, most);
      }
      left -= std::min(left, space_->work() - begun);
      note(best_at, s);
    }
    for (std::size_t j = 0; j < rungs_.size(); ++j) forecast_[j] = std::min(best_at[0][j], best_at[1][j]);
  }

  void note(std::array<times, 2>& best_at, std::size_t split) const {
    times& at = best_at.at(static_cast<std::size_t>(splits_[split].waits));
    for (std::size_t j = 0; j < rungs_.size(); ++j) {
      if (found_[split][j]) at[j] = std::min(at[j], found_[split][j]->score.forecast.time);
    }
  }

  // --- placed plans, of rungs within the budget; each depends on smaller rungs alone ---

  // Of the plans of this rung and smaller ones.
  nanoseconds time_at(std::size_t j) const {
    nanoseconds least = never;
    for (; j < rungs_.size(); ++j) {
      if (placed_[j]) least = std::min(least, placed_[j]->what.placed.time);
    }
    return least;
  }

  bool may_be_fast(nanoseconds forecast, std::size_t j) const {
    return forecast - forecast / 100 * forecast_error < time_at(j);
  }

  // By the number of rungs at which their forecast is near the fastest.
  std::vector<std::size_t> fastest_splits_first() const {
    std::vector<std::pair<std::size_t, std::size_t>> all;
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      std::size_t slow = 0;
      for (std::size_t j = 0; j < rungs_.size(); ++j) {
        const std::optional<solution>& x = found_[s][j];
        if (!x || x->score.forecast.time > forecast_[j] + forecast_[j] / 100) ++slow;
      }
      all.emplace_back(slow, s);
    }
    std::ranges::sort(all);
    std::vector<std::size_t> splits;
    for (const auto& [slow, s] : all) splits.push_back(s);
    return splits;
  }

  void place_split(std::size_t s) {
    // Of orders that take long to place not every rung is placed.
    const std::uint64_t each = work_of_placing(space_of(s)) * splits_.size();
    const std::size_t step = 1 + rungs_.size() * each / (2 * work_);
    const solution* below = nullptr;
    for (std::size_t j = rungs_.size(); j-- > 0 && is_within(j);) {
      const std::optional<solution>& x = found_[s][j];
      if (j % step != 0 || !x || (below != nullptr && below->treatments == x->treatments)) continue;
      below = &*x;
      if (may_be_fast(x->score.forecast.time, j)) place_at(s, j, *x);
    }
  }

  // Decides for less where packing needs more than the rung.
  void place_at(std::size_t split, std::size_t j, solution now) {
    constexpr int most_placed = 3;
    const byte_count budget = rungs_[j].budget;
    byte_count aim = budget;
    search_space& of = space_of(split);
    for (int i = 0; i < most_placed && now.score.over == 0 && may_be_fast(now.score.forecast.time, j); ++i) {
      std::optional<placed_plan> placed = place_.decided(of.plan(now.treatments), budget);
      const byte_count need = placed ? placed->need : aim + aim / 20;
      if (placed && need > budget) placed = place_in_larger(of.plan(now.treatments), j, need);
      if (placed) take(split, j, {now.treatments, std::move(*placed)});
      if (need <= budget) return;
      aim -= std::min(aim, (need - budget) * 3 / 4 + budget / 1000);
      now = decide_again(of, aim, {4, work_ / 64}, now);
    }
  }

  std::optional<placed_plan> place_in_larger(memory_plan plan, std::size_t j, byte_count need) const {
    while (j > 0 && rungs_[j].budget < need) --j;
    if (rungs_[j].budget < need || !is_within(j)) return std::nullopt;
    return place_.decided(std::move(plan), rungs_[j].budget);
  }

  // For the smallest rung from `j` on that holds the plan.
  void take(std::size_t split, std::size_t j, placed_decisions what) {
    while (what.placed.need > rungs_[j].budget) {
      if (j == 0 || !is_within(j - 1)) return;
      --j;
    }
    if (!placed_[j] || what.placed.time < placed_[j]->what.placed.time) placed_[j] = {split, std::move(what)};
  }

  // Searches the last rungs up to the budget one by one, each with the same effort.
  void search_last_rungs() {
    constexpr std::size_t most_rungs = 3;
    const auto largest = static_cast<std::size_t>(
        std::ranges::find_if(rungs_, [&](const rung& r) { return r.budget <= p_.budget; }) - rungs_.begin());
    for (std::size_t j = std::min(largest + most_rungs, rungs_.size()); j-- > largest;) search_rung(j);
  }

  // Every split with little effort, then the fastest with more.
  void search_rung(std::size_t j) {
    const byte_count budget = rungs_[j].budget;
    nanoseconds least = never;
    std::size_t fastest_split = splits_.size();
    const auto consider = [&](std::size_t s, const effort_limits& by) {
      search_space& of = space_of(s);
      if (of.least_memory() > budget) return;
      repaired found = decide_and_place(of, place_, {budget, budget, least}, by);
      if (!found.best) return;
      least = found.best->placed.time;
      fastest_split = s;
      take(s, j, std::move(*found.best));
    };
    for (std::size_t s = 0; s < splits_.size(); ++s) consider(s, quick_effort(work_ / 4 / splits_.size()));
    if (fastest_split < splits_.size()) consider(fastest_split, full_effort(work_ / 4));
  }

  // Drops plans that are no faster than one of less memory.
  void polish_all() {
    nanoseconds least = never;
    for (std::size_t j = rungs_.size(); j-- > 0 && is_within(j);) {
      std::optional<candidate>& x = placed_[j];
      if (!x) continue;
      if (x->what.placed.time >= least) {
        x.reset();
        continue;
      }
      x->what = polish(space_of(x->split), place_, rungs_[j].budget, std::move(x->what), work_ / 16);
      least = x->what.placed.time;
    }
  }

  // In the budget itself: where the driver evicts, times depend on it.
  std::optional<placed_plan> fastest() {
    std::optional<placed_plan> best;
    for (std::optional<candidate>& x : placed_) {
      if (!x) continue;
      std::optional<placed_plan> now = place_.finished(std::move(x->what.placed.plan));
      if (now && now->need <= p_.budget && (!best || now->time < best->time)) best = std::move(now);
    }
    return best;
  }

  const problem& p_;
  const placer& place_;
  std::span<const batch_split> splits_;
  std::span<const rung> rungs_;
  std::uint64_t work_;
  times forecast_;                                           // per rung: the least of all splits
  std::vector<std::vector<std::optional<solution>>> found_;  // per split and rung
  std::vector<std::optional<candidate>> placed_;             // per rung: the fastest
  std::unique_ptr<search_space> space_;
  std::size_t split_ = 0;  // of space_
};

}  // namespace

std::optional<placed_plan> plan_by_rungs(const problem& p, const placer& place,
                                         std::span<const batch_split> splits, std::span<const rung> rungs,
                                         std::uint64_t work) {
  return rung_search(p, place, splits, rungs, work).run();
}

}  // namespace um
