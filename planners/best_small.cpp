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

// The time of a search grows with the computes of all splits together. Up to `most_computes`, each rung is
// searched and rivals are asked at each. Above, only the last three rungs are, so there more memory may be
// slower. AlexNet has 3,400 computes in batches of 32, random graphs mostly less than 3,000. Searched at each
// rung, AlexNet in batches of 512 took eight times as long, and its plan at 1.5 4.42 ms in place of 3.91.
constexpr std::size_t most_computes = 3000, computes_per_turn = 1000, last_rungs = 3;

class rung_search {
 public:
  rung_search(const problem& p, const placer& place, std::span<const batch_split> splits,
              std::span<const rung> rungs, const rival_planner& rival, std::uint64_t work)
      : p_(p),
        place_(place),
        splits_(splits),
        rungs_(rungs),
        rival_(rival),
        work_(work),
        forecast_(rungs.size(), never),
        found_(splits.size()),
        later_(rungs.size()) {
    for (const op_cost& c : p.operator_costs) compute_time_ += c.time;
    std::size_t computes = 0;
    for (const batch_split& x : splits) {
      if (x.may_swap && x.waits == memory_waits::for_all) computes += make_order(p.network, x.by).size();
    }
    searches_all_ = computes <= most_computes;
    turns_ = searches_all_ ? 1 + computes / computes_per_turn : 1;
  }

  std::optional<placed_plan> run() {
    climb_all(work_ / 3, false);
    climb_all(work_ * 2 / 3, true);
    order_ = fastest_splits_first();
    while (largest_ < rungs_.size() && !is_within(largest_)) ++largest_;
    for (std::size_t j = rungs_.size(); j-- > 0 && is_within(j) && !is_close();) search_rung(j);
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
  bool is_close() const {
    return std::min(least_, rivals_least_) <= compute_time_ + compute_time_ * close_permille / 1000;
  }

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

  // --- plans of one budget after the other; what is done for one depends on smaller ones alone ---

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

  bool may_be_fast(const std::optional<solution>& x) const {
    return !x || x->score.forecast.time - x->score.forecast.time / 100 * forecast_error < least_;
  }

  // Tries the plans that forecasts found for this budget, decides again for each split, then with more effort
  // for the fastest, and asks rivals.
  void search_rung(std::size_t j) {
    const byte_count budget = rungs_[j].budget;
    if (p_.evicted_by == pressure::driver) time_again(budget);
    const nanoseconds before = least_;
    if (later_[j]) take(std::move(*later_[j]));
    for (const std::size_t s : order_) place_found(s, j);
    const bool is_searched = searches_all_ || j < largest_ + last_rungs;
    if (is_searched) decide_all(j, before);
    if (now_ && (is_searched || least_ < before)) {
      const std::uint64_t work = work_ / (least_ < before ? 16 : 64);
      take({now_->split, polish(space_of(now_->split), place_, budget, now_->what, work)});
    }
    // With less than half of the budget rivals cut finely, and each size of a part takes long to time.
    if (!is_searched || budget < p_.budget / 2) return;
    // A rival's plan cannot be polished: the search goes on from its own.
    std::optional<placed_plan> rival = rival_(budget, std::min(least_, rivals_least_));
    if (!rival || rival->time >= std::min(least_, rivals_least_)) return;
    rivals_least_ = rival->time;
    plans_.push_back(rival->plan);
    rivals_plan_ = std::move(rival->plan);
  }

  // Where the driver evicts, a plan may be slower with more memory.
  void time_again(byte_count budget) {
    const auto time = [&](const memory_plan& x) {
      const std::optional<placed_plan> now = place_.finished(x, budget);
      return now ? now->time : never;
    };
    if (now_) least_ = now_->what.placed.time = time(now_->what.placed.plan);
    if (rivals_plan_) rivals_least_ = time(*rivals_plan_);
  }

  // Every split with little effort, or every second or third in turn, then the fastest with more.
  void decide_all(std::size_t j, nanoseconds before) {
    const byte_count budget = rungs_[j].budget;
    const std::uint64_t work = work_ / (searches_all_ ? 16 : 4);
    std::size_t fastest = now_ ? now_->split : splits_.size();
    // Plans that forecasts call slower by their error are placed, too.
    nanoseconds to_beat = !searches_all_ || least_ == never ? never : least_ + least_ / 100 * forecast_error;
    const auto decide_for = [&](std::size_t split, const effort_limits& by) {
      search_space& of = space_of(split);
      if (of.least_memory() > budget) return;
      repaired found = decide_and_place(of, place_, {budget, budget, to_beat}, by);
      if (!found.best) return;
      to_beat = found.best->placed.time;
      fastest = split;
      take({split, std::move(*found.best)});
    };
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      if (searches_all_ && ((j + s) % turns_ != 0 || !may_be_fast(found_[s][j]))) continue;
      decide_for(s, quick_effort(work / splits_.size()));
    }
    if (fastest < splits_.size() && (least_ < before || j % turns_ == 0))
      decide_for(fastest, full_effort(work));
  }

  void place_found(std::size_t s, std::size_t j) {
    const std::optional<solution>& x = found_[s][j];
    // Of orders that take long to place not every rung is placed.
    const std::uint64_t each = work_of_placing(space_of(s)) * splits_.size();
    const std::size_t step = 1 + rungs_.size() * each / (2 * work_);
    if (j % step != 0 || !x || !may_be_fast(x)) return;
    if (j + step < rungs_.size() && found_[s][j + step] && found_[s][j + step]->treatments == x->treatments)
      return;
    place_at(s, j, *x);
  }

  // Decides for less where packing needs more than the rung.
  void place_at(std::size_t split, std::size_t j, solution now) {
    constexpr int most_placed = 3;
    const byte_count budget = rungs_[j].budget;
    byte_count aim = budget;
    search_space& of = space_of(split);
    for (int i = 0; i < most_placed && now.score.over == 0 && may_be_fast(now); ++i) {
      std::optional<placed_plan> placed = place_.decided(of.plan(now.treatments), budget);
      const byte_count need = placed ? placed->need : aim + aim / 20;
      if (placed && need > budget) place_in_larger(split, j, now, need);
      if (placed && need <= budget) take({split, {now.treatments, std::move(*placed)}});
      if (need <= budget) return;
      aim -= std::min(aim, (need - budget) * 3 / 4 + budget / 1000);
      now = decide_again(of, aim, {4, work_ / 64}, now);
    }
  }

  // Keeps the plan for the smallest budget of the ladder in which it fits.
  void place_in_larger(std::size_t split, std::size_t j, const solution& now, byte_count need) {
    while (j > 0 && rungs_[j].budget < need) --j;
    if (rungs_[j].budget < need || !is_within(j)) return;
    std::optional<placed_plan> placed =
        place_.decided(space_of(split).plan(now.treatments), rungs_[j].budget);
    if (!placed || placed->need > rungs_[j].budget) return;
    if (!later_[j] || placed->time < later_[j]->what.placed.time)
      later_[j] = {split, {now.treatments, std::move(*placed)}};
  }

  void take(candidate x) {
    if (x.what.placed.time >= least_) return;
    least_ = x.what.placed.time;
    plans_.push_back(x.what.placed.plan);
    now_ = std::move(x);
  }

  // In the budget itself: where the driver evicts, times depend on it.
  std::optional<placed_plan> fastest() {
    std::optional<placed_plan> best;
    for (memory_plan& x : plans_) {
      std::optional<placed_plan> now = place_.finished(std::move(x), p_.budget);
      if (now && now->need <= p_.budget && (!best || now->time < best->time)) best = std::move(now);
    }
    return best;
  }

  const problem& p_;
  const placer& place_;
  std::span<const batch_split> splits_;
  std::span<const rung> rungs_;
  const rival_planner& rival_;
  std::uint64_t work_;
  bool searches_all_ = false;     // each rung, not only the last ones
  std::size_t turns_ = 1;         // a rung searches every turns_-th split; the next rung, the next ones
  std::size_t largest_ = 0;       // rung within the budget
  nanoseconds compute_time_ = 0;  // of all operators
  times forecast_;                // per rung: the least of all splits
  std::vector<std::vector<std::optional<solution>>> found_;  // per split and rung
  std::vector<std::size_t> order_;                           // of splits
  std::vector<std::optional<candidate>>
      later_;                     // per rung: the fastest plan for a smaller one that fits from here on
  std::optional<candidate> now_;  // the fastest plan so far, within its budget
  nanoseconds least_ = never, rivals_least_ = never;  // times of that and of the fastest rival's plan
  std::optional<memory_plan> rivals_plan_;
  std::vector<memory_plan> plans_;  // these and those that were the fastest before
  std::unique_ptr<search_space> space_;
  std::size_t split_ = 0;  // of space_
};

}  // namespace

std::optional<placed_plan> plan_by_rungs(const problem& p, const placer& place,
                                         std::span<const batch_split> splits, std::span<const rung> rungs,
                                         const rival_planner& rival, std::uint64_t work) {
  return rung_search(p, place, splits, rungs, rival, work).run();
}

}  // namespace um
