#include "planners/best_ladder.hpp"

#include <array>

namespace um {
namespace {

// Ratios of the footprint to the budgets of the rungs. Every second rung is searched afresh, the others from
// their neighbours.
constexpr std::array coarse_ratios{1.02, 1.05, 1.1,  1.15, 1.2,  1.25, 1.3,  1.35, 1.4,  1.5,  1.55, 1.65,
                                   1.7,  1.8,  1.9,  2.0,  2.1,  2.25, 2.35, 2.5,  2.6,  2.75, 2.85, 3.0,
                                   3.25, 3.5,  3.75, 4.0,  4.25, 4.5,  4.75, 5.0,  5.5,  6.0,  6.5,  7.0,
                                   7.5,  8.0,  9.0,  10.0, 11.0, 12.0, 14.0, 16.0, 20.0, 24.0, 28.0, 32.0};

std::vector<double> rung_ratios(bool fine) {
  if (!fine) return {coarse_ratios.begin(), coarse_ratios.end()};
  std::vector<double> ratios{1.02};
  constexpr int steps = 70;
  for (int i = 1; i <= steps; ++i) ratios.push_back(1 + 0.05 * i);
  for (const double ratio : coarse_ratios) {
    if (ratio > ratios.back() + 0.05) ratios.push_back(ratio);
  }
  return ratios;
}

class climbing {
 public:
  climbing(search_space& of, std::span<const rung> rungs, std::span<const nanoseconds> best_so_far,
           const effort& most)
      : of_(of),
        rungs_(rungs),
        best_so_far_(best_so_far),
        most_tries_(most.tries_for_each),
        is_fine_(rungs.size() > coarse_ratios.size()),
        most_failures_(is_fine_ ? 8 : 1),
        end_(of.work() + most.work),
        found_(rungs.size()) {}

  std::vector<std::optional<solution>> run() {
    const auto useful =
        std::ranges::find_if(best_so_far_, [&](nanoseconds t) { return t > of_.compute_time(); });
    const auto first = static_cast<std::size_t>(useful - best_so_far_.begin());
    go_up(first, go_down(first));
    return std::move(found_);
  }

  void run_again(std::vector<std::optional<solution>>& found) {
    found_ = std::move(found);
    const auto is_close = [&](std::size_t j) {
      return found_[j] && best_so_far_[j] > of_.compute_time() &&
             found_[j]->score.forecast.time <= best_so_far_[j] + best_so_far_[j] / close;
    };
    std::size_t left = 0;
    for (std::size_t j = 0; j < rungs_.size(); ++j) left += is_close(j) ? 1 : 0;
    for (std::size_t j = rungs_.size(); j-- > 0;) {
      const bool from_below = j + 1 < rungs_.size() && is_slower(found_[j], found_[j + 1]);
      if (from_below) found_[j] = found_[j + 1];
      if (!is_close(j) || of_.work() >= end_) continue;
      const effort share = share_of(2 * left--);
      found_[j] = keep_more(of_, rungs_[j].budget, share, *found_[j]);
      solution anew = decide(of_, rungs_[j].budget, share);
      if (anew.score.over == 0 && anew.score.forecast.time < found_[j]->score.forecast.time)
        found_[j] = std::move(anew);
    }
    found = std::move(found_);
  }

 private:
  // Orders slower than the fastest by more than this part of its time are not searched again.
  static constexpr nanoseconds close = 30;
  static bool is_slower(const std::optional<solution>& a, const std::optional<solution>& b) {
    return b && (!a || b->score.forecast.time < a->score.forecast.time);
  }

  // The effort of each search if they share the work that is left.
  effort share_of(std::size_t searches) const {
    constexpr std::size_t least_tries = 4;
    const std::uint64_t work = (end_ - std::min(end_, of_.work())) / std::max<std::size_t>(searches, 1);
    // The least work (search_space::work) of a try of one class of gaps.
    constexpr std::uint64_t of_a_try = 200;
    const std::uint64_t tries = work / of_a_try / std::max<std::size_t>(of_.classes().size(), 1);
    return {std::clamp<std::size_t>(tries, least_tries, most_tries_), std::max<std::uint64_t>(work, 1000)};
  }

  // Returns the first rung without a solution. Solutions without swaps are found fast, and are often best
  // where little memory is missing.
  std::size_t go_down(std::size_t first) {
    solution unmoved{std::vector<treatment>(of_.classes().size(), treatment::keep), {}};
    int slower = 0, failures = 0;
    for (std::size_t j = first; j < rungs_.size() && of_.work() < end_; ++j) {
      if (rungs_[j].budget < of_.least_memory()) return j;
      const std::size_t left = rungs_.size() - j;
      if (unmoved.score.over == 0)
        unmoved = recompute_more(of_, rungs_[j].budget, share_of(3 * left), unmoved);
      if (unmoved.score.over == 0) found_[j] = unmoved;
      if (!rungs_[j].decided && found_[j]) continue;
      solution anew = decide(of_, rungs_[j].budget, share_of(2 * left));
      if (anew.score.over == 0 && (!found_[j] || anew.score.forecast.time < found_[j]->score.forecast.time))
        found_[j] = std::move(anew);
      if (!found_[j] && j > first && found_[j - 1]) {
        solution less = decide_again(of_, rungs_[j].budget, share_of(2 * left), *found_[j - 1]);
        if (less.score.over == 0) found_[j] = std::move(less);
      }
      if (!found_[j]) {
        if (++failures == most_failures_) return j;
        continue;
      }
      constexpr int enough = 2;
      const nanoseconds time = found_[j]->score.forecast.time;
      slower = best_so_far_[j] < time - time / 8 ? slower + 1 : 0;
      if (slower == enough && !is_fine_) return j + 1;
    }
    return rungs_.size();
  }

  void go_up(std::size_t first, std::size_t end) {
    const solution* below = nullptr;
    for (std::size_t j = end; j-- > first;) {
      if (!found_[j] && below == nullptr) continue;
      const bool from_below =
          !found_[j] || (below != nullptr && below->score.forecast.time < found_[j]->score.forecast.time);
      found_[j] = keep_more(of_, rungs_[j].budget, share_of(j - first + 1), from_below ? *below : *found_[j]);
      below = &*found_[j];
    }
  }

  search_space& of_;
  std::span<const rung> rungs_;
  std::span<const nanoseconds> best_so_far_;
  std::size_t most_tries_;
  bool is_fine_;
  int most_failures_;
  std::uint64_t end_;
  std::vector<std::optional<solution>> found_;
};

}  // namespace

std::vector<rung> ladder_of(byte_count footprint, bool fine) {
  std::vector<rung> rungs;
  for (const double ratio : rung_ratios(fine)) {
    const bool decided = rungs.size() % 2 == 1;
    rungs.push_back({static_cast<byte_count>(static_cast<double>(footprint) / ratio), decided});
  }
  return rungs;
}

std::vector<std::optional<solution>> climb(search_space& of, std::span<const rung> rungs,
                                           std::span<const nanoseconds> best_so_far, const effort& most) {
  return climbing(of, rungs, best_so_far, most).run();
}

void climb_again(search_space& of, std::span<const rung> rungs, std::span<const nanoseconds> best_so_far,
                 const effort& most, std::vector<std::optional<solution>>& found) {
  climbing(of, rungs, best_so_far, most).run_again(found);
}

}  // namespace um
