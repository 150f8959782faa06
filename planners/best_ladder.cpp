#include "planners/best_ladder.hpp"

#include <array>

namespace um {
namespace {

// Ratios of the footprint to the budgets of the rungs. Every second rung is searched from the start, the
// others from the solutions of their neighbours.
constexpr std::array coarse_ratios{1.02, 1.05, 1.1,  1.15, 1.2,  1.25, 1.3,  1.35, 1.4,  1.5,  1.55, 1.65,
                                   1.7,  1.8,  1.9,  2.0,  2.1,  2.25, 2.35, 2.5,  2.6,  2.75, 2.85, 3.0,
                                   3.25, 3.5,  3.75, 4.0,  4.25, 4.5,  4.75, 5.0,  5.5,  6.0,  6.5,  7.0,
                                   7.5,  8.0,  9.0,  10.0, 11.0, 12.0, 14.0, 16.0, 20.0, 24.0, 28.0, 32.0};

std::vector<double> rung_ratios(bool fine) {
  if (!fine) return {coarse_ratios.begin(), coarse_ratios.end()};
  std::vector<double> ratios{1.02};
  // Quotients of whole numbers: a ratio that is asked for in decimals is then the same number.
  constexpr int steps = 70;
  for (int i = 1; i <= steps; ++i) ratios.push_back((20 + i) / 20.0);
  for (const double ratio : coarse_ratios) {
    if (ratio > ratios.back() + 0.05) ratios.push_back(ratio);
  }
  return ratios;
}

class ladder_solver {
 public:
  ladder_solver(search_space& of, std::span<const rung> rungs, std::span<const nanoseconds> best_so_far,
                const effort& most)
      : of_(of),
        rungs_(rungs),
        best_so_far_(best_so_far),
        max_tries_per_gap_class_(most.tries_per_gap_class),
        is_fine_(rungs.size() > coarse_ratios.size()),
        max_failures_(is_fine_ ? 8 : 1),
        work_limit_(of.work() + most.max_work),
        solutions_(rungs.size()) {}

  std::vector<std::optional<solution>> run() {
    const auto useful =
        std::ranges::find_if(best_so_far_, [&](nanoseconds t) { return t > of_.compute_time(); });
    const auto first = static_cast<std::size_t>(useful - best_so_far_.begin());
    improve_upwards(first, search_downwards(first));
    return std::move(solutions_);
  }

  void improve(std::vector<std::optional<solution>>& found) {
    solutions_ = std::move(found);
    const auto is_close = [&](std::size_t j) {
      return solutions_[j] && best_so_far_[j] > of_.compute_time() &&
             solutions_[j]->score.forecast.time <= best_so_far_[j] + best_so_far_[j] / max_slowdown_share;
    };
    std::size_t left = 0;
    for (std::size_t j = 0; j < rungs_.size(); ++j) left += is_close(j) ? 1 : 0;
    for (std::size_t j = rungs_.size(); j-- > 0;) {
      const bool from_below = j + 1 < rungs_.size() && is_slower(solutions_[j], solutions_[j + 1]);
      if (from_below) solutions_[j] = solutions_[j + 1];
      if (!is_close(j) || of_.work() >= work_limit_) continue;
      const effort share = effort_per_search(2 * left--);
      solutions_[j] = keep_more(of_, rungs_[j].budget, share, *solutions_[j]);
      solution anew = decide(of_, rungs_[j].budget, share);
      if (anew.score.excess == 0 && anew.score.forecast.time < solutions_[j]->score.forecast.time)
        solutions_[j] = std::move(anew);
    }
    found = std::move(solutions_);
  }

 private:
  // A rung is not improved if this order is slower there than the fastest by more than one part in this many.
  static constexpr nanoseconds max_slowdown_share = 30;
  static bool is_slower(const std::optional<solution>& a, const std::optional<solution>& b) {
    return b && (!a || b->score.forecast.time < a->score.forecast.time);
  }

  // Divides the remaining work among `searches` searches.
  effort effort_per_search(std::size_t searches) const {
    constexpr std::size_t min_tries_per_gap_class = 4;
    const std::uint64_t work =
        (work_limit_ - std::min(work_limit_, of_.work())) / std::max<std::size_t>(searches, 1);
    // Minimum work (search_space::work) to try one treatment of one gap class.
    constexpr std::uint64_t work_per_try = 200;
    const std::uint64_t tries = work / work_per_try / std::max<std::size_t>(of_.classes().size(), 1);
    return {std::clamp<std::size_t>(tries, min_tries_per_gap_class, max_tries_per_gap_class_),
            std::max<std::uint64_t>(work, 1000)};
  }

  // Searches each rung in order of falling budgets. Returns one past the last rung searched; rungs before it
  // may lack a solution. Ends after `max_failures_` rungs without one, and after two where this order is
  // clearly slower. Searches without swaps are fast, and often win if little memory is missing.
  std::size_t search_downwards(std::size_t first) {
    solution swapless{std::vector<treatment>(of_.classes().size(), treatment::keep), {}};
    int slower = 0, failures = 0;
    for (std::size_t j = first; j < rungs_.size() && of_.work() < work_limit_; ++j) {
      if (rungs_[j].budget < of_.min_memory()) return j;
      const std::size_t left = rungs_.size() - j;
      if (swapless.score.excess == 0)
        swapless = recompute_more(of_, rungs_[j].budget, effort_per_search(3 * left), swapless);
      if (swapless.score.excess == 0) solutions_[j] = swapless;
      if (!rungs_[j].is_searched_afresh && solutions_[j]) continue;
      solution anew = decide(of_, rungs_[j].budget, effort_per_search(2 * left));
      if (anew.score.excess == 0 &&
          (!solutions_[j] || anew.score.forecast.time < solutions_[j]->score.forecast.time))
        solutions_[j] = std::move(anew);
      if (!solutions_[j] && j > first && solutions_[j - 1]) {
        solution less = decide_again(of_, rungs_[j].budget, effort_per_search(2 * left), *solutions_[j - 1]);
        if (less.score.excess == 0) solutions_[j] = std::move(less);
      }
      if (!solutions_[j]) {
        if (++failures == max_failures_) return j;
        continue;
      }
      constexpr int enough = 2;
      const nanoseconds time = solutions_[j]->score.forecast.time;
      slower = best_so_far_[j] < time - time / 8 ? slower + 1 : 0;
      if (slower == enough && !is_fine_) return j + 1;
    }
    return rungs_.size();
  }

  void improve_upwards(std::size_t first, std::size_t end) {
    const solution* below = nullptr;
    for (std::size_t j = end; j-- > first;) {
      if (!solutions_[j] && below == nullptr) continue;
      const bool from_below = !solutions_[j] || (below != nullptr && below->score.forecast.time <
                                                                         solutions_[j]->score.forecast.time);
      solutions_[j] = keep_more(of_, rungs_[j].budget, effort_per_search(j - first + 1),
                                from_below ? *below : *solutions_[j]);
      below = &*solutions_[j];
    }
  }

  search_space& of_;
  std::span<const rung> rungs_;
  std::span<const nanoseconds> best_so_far_;
  std::size_t max_tries_per_gap_class_;
  bool is_fine_;
  int max_failures_;
  std::uint64_t work_limit_;
  std::vector<std::optional<solution>> solutions_;
};

}  // namespace

std::vector<rung> ladder_of(byte_count footprint, bool fine) {
  std::vector<rung> rungs;
  for (const double ratio : rung_ratios(fine)) {
    const bool is_searched_afresh = rungs.size() % 2 == 1;
    rungs.push_back({static_cast<byte_count>(static_cast<double>(footprint) / ratio), is_searched_afresh});
  }
  return rungs;
}

std::vector<std::optional<solution>> solve_ladder(search_space& of, std::span<const rung> rungs,
                                                  std::span<const nanoseconds> best_so_far,
                                                  const effort& most) {
  return ladder_solver(of, rungs, best_so_far, most).run();
}

void improve_ladder(search_space& of, std::span<const rung> rungs, std::span<const nanoseconds> best_so_far,
                    const effort& most, std::vector<std::optional<solution>>& found) {
  ladder_solver(of, rungs, best_so_far, most).improve(found);
}

}  // namespace um
