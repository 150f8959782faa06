#include "planners/best_ladder.hpp"

#include <array>

namespace um {
namespace {

// Ratios of the footprint to the budgets of the rungs. Every second rung is searched afresh, the others from
// their neighbours.
constexpr std::array ratios{1.02, 1.05, 1.1,  1.15, 1.2,  1.25, 1.3,  1.35, 1.4,  1.5,  1.55, 1.65,
                            1.7,  1.8,  1.9,  2.0,  2.1,  2.25, 2.35, 2.5,  2.6,  2.75, 2.85, 3.0,
                            3.25, 3.5,  3.75, 4.0,  4.25, 4.5,  4.75, 5.0,  5.5,  6.0,  6.5,  7.0,
                            7.5,  8.0,  9.0,  10.0, 11.0, 12.0, 14.0, 16.0, 20.0, 24.0, 28.0, 32.0};

class climbing {
 public:
  climbing(search_space& of, std::span<const rung> rungs, std::span<const nanoseconds> best_so_far,
           std::uint64_t work)
      : of_(of), rungs_(rungs), best_so_far_(best_so_far), end_(of.work() + work), found_(rungs.size()) {}

  std::vector<std::optional<solution>> run() {
    const auto useful =
        std::ranges::find_if(best_so_far_, [&](nanoseconds t) { return t > of_.compute_time(); });
    const auto first = static_cast<std::size_t>(useful - best_so_far_.begin());
    go_up(first, go_down(first));
    return std::move(found_);
  }

 private:
  // The effort of each search if they share the work that is left.
  effort share_of(std::size_t searches) const {
    constexpr std::size_t least_tries = 4, most_tries = 40;
    const std::uint64_t work = (end_ - std::min(end_, of_.work())) / std::max<std::size_t>(searches, 1);
    // The least work of one try.
    constexpr std::uint64_t of_a_try = 200;
    const std::uint64_t tries = work / of_a_try / std::max<std::size_t>(of_.classes().size(), 1);
    return {std::clamp<std::size_t>(tries, least_tries, most_tries), std::max<std::uint64_t>(work, 1000)};
  }

  // Returns the first rung without a solution. Solutions without swaps are found fast, and are often best
  // where little memory is missing.
  std::size_t go_down(std::size_t first) {
    solution unmoved{std::vector<treatment>(of_.classes().size(), treatment::keep), {}};
    int slower = 0;
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
      if (!found_[j]) return j;
      constexpr int enough = 2;
      const nanoseconds time = found_[j]->score.forecast.time;
      slower = best_so_far_[j] < time - time / 8 ? slower + 1 : 0;
      if (slower == enough) return j + 1;
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
  std::uint64_t end_;
  std::vector<std::optional<solution>> found_;
};

}  // namespace

std::vector<rung> ladder_of(byte_count footprint) {
  std::vector<rung> rungs;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    const bool decided = i % 2 == 1;
    rungs.push_back({static_cast<byte_count>(static_cast<double>(footprint) / ratios[i]), decided});
  }
  return rungs;
}

std::vector<std::optional<solution>> climb(search_space& of, std::span<const rung> rungs,
                                           std::span<const nanoseconds> best_so_far, std::uint64_t work) {
  return climbing(of, rungs, best_so_far, work).run();
}

}  // namespace um
