#include "planners/best_small.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "planners/best_repair.hpp"

namespace um {
namespace {

class ladder_search {
 public:
  ladder_search(const problem& p, const placer& place, std::span<const batch_split> splits,
                std::span<const rung> rungs, std::uint64_t work)
      : p_(p),
        place_(place),
        splits_(splits),
        rungs_(rungs),
        work_(work),
        best_at_{times(rungs.size(), never), times(rungs.size(), never)},
        found_(splits.size()) {}

  std::optional<placed_plan> run() {
    climb_all(work_ / 3, false);
    climb_all(work_ * 2 / 3, true);
    place_fastest();
    polish_fastest();
    if (placed_.empty()) return std::nullopt;
    return std::move(placed_.front().what.placed);
  }

 private:
  using times = std::vector<nanoseconds>;
  static constexpr nanoseconds never = std::numeric_limits<nanoseconds>::max();

  struct candidate {
    std::size_t split = 0;
    byte_count rung = 0;
    const solution* decided = nullptr;
    nanoseconds time() const { return decided->score.forecast.time; }
  };
  struct placed_candidate {
    std::size_t split = 0;
    byte_count budget = 0;  // its rung, or what it needs if that is more
    placed_decisions what;
    nanoseconds time() const { return what.placed.time; }
  };

  std::unique_ptr<search_space> space_of(std::size_t split) const {
    const batch_split& x = splits_[split];
    return std::make_unique<search_space>(p_, make_order(p_.network, x.by), x.may_swap, x.waits);
  }

  times& best_at(std::size_t split) { return best_at_.at(static_cast<std::size_t>(splits_[split].waits)); }

  // Work that one split leaves goes to those that follow.
  void climb_all(std::uint64_t left, bool again) {
    constexpr std::size_t most_tries = 300;
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      const std::unique_ptr<search_space> of = space_of(s);
      const effort most{most_tries, left / std::min<std::size_t>(splits_.size() - s, 3)};
      if (again) {
        climb_again(*of, rungs_, best_at(s), most, found_[s]);
      } else {
        found_[s] = climb(*of, rungs_, best_at(s), most);
      }
      left -= std::min(left, of->work());
      for (std::size_t j = 0; j < rungs_.size(); ++j) {
        if (found_[s][j]) best_at(s)[j] = std::min(best_at(s)[j], found_[s][j]->score.forecast.time);
      }
    }
  }

  std::vector<candidate> candidates() const {
    std::vector<candidate> all;
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      const solution* above = nullptr;
      for (std::size_t j = rungs_.size(); j-- > 0;) {
        const std::optional<solution>& x = found_[s][j];
        if (!x || rungs_[j].budget > p_.budget) continue;
        if (above == nullptr || above->treatments != x->treatments) all.push_back({s, rungs_[j].budget, &*x});
        above = &*x;
      }
    }
    std::ranges::stable_sort(all, {}, &candidate::time);
    return all;
  }

  bool may_be_fast(nanoseconds forecast) const {
    return placed_.empty() || forecast - forecast / 100 * forecast_error < placed_.front().time();
  }

  void place_fastest() {
    std::uint64_t left = work_ / 2;
    const std::vector<candidate> all = candidates();
    for (const candidate& c : all) {
      if (!may_be_fast(c.time()) || (left == 0 && !placed_.empty())) break;
      if (!space_ || split_ != c.split) {
        space_.reset();
        space_ = space_of(c.split);
        split_ = c.split;
      }
      place_at(c);
      left -= std::min(left, work_of_placing(*space_));
    }
  }

  // Decides for less where packing needs more than the rung.
  void place_at(const candidate& c) {
    constexpr int most_placed = 3;
    solution now = *c.decided;
    byte_count aim = c.rung;
    for (int i = 0; i < most_placed && now.score.over == 0 && may_be_fast(now.score.forecast.time); ++i) {
      std::optional<placed_plan> placed = place_.decided(space_->plan(now.treatments));
      const byte_count need = placed ? placed->need : aim + aim / 20;
      if (placed && need <= p_.budget)
        take({c.split, std::max(c.rung, need), {now.treatments, std::move(*placed)}});
      if (placed && need <= c.rung) return;
      aim -= std::min(aim, (need - c.rung) * 3 / 4 + c.rung / 1000);
      now = decide_again(*space_, aim, {4, work_ / 64}, now);
    }
  }

  // Keeps the fastest first.
  void take(placed_candidate x) {
    constexpr std::size_t most_kept = 2;
    const auto at = std::ranges::upper_bound(placed_, x.time(), {}, &placed_candidate::time);
    placed_.insert(at, std::move(x));
    if (placed_.size() > most_kept) placed_.pop_back();
  }

  void polish_fastest() {
    const std::vector<placed_candidate> all = placed_;
    for (const placed_candidate& x : all) {
      const std::unique_ptr<search_space> of = space_of(x.split);
      placed_candidate better = x;
      better.what = polish(*of, place_, x.budget, x.what, work_ / 8);
      take(std::move(better));
    }
  }

  const problem& p_;
  const placer& place_;
  std::span<const batch_split> splits_;
  std::span<const rung> rungs_;
  std::uint64_t work_;
  std::array<times, 2> best_at_;  // per assumption about waits and rung: of all splits so far
  std::vector<std::vector<std::optional<solution>>> found_;  // per split and rung
  std::vector<placed_candidate> placed_;
  std::unique_ptr<search_space> space_;
  std::size_t split_ = 0;  // of space_
};

}  // namespace

std::optional<placed_plan> plan_by_ladder(const problem& p, const placer& place,
                                          std::span<const batch_split> splits, std::span<const rung> rungs,
                                          std::uint64_t work) {
  return ladder_search(p, place, splits, rungs, work).run();
}

}  // namespace um
