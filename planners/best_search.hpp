// Searches for the fastest decisions within a budget, for one order of computes.
#pragma once

#include <limits>

#include "planners/best_space.hpp"

namespace um {

// A limit that every time keeps.
inline constexpr nanoseconds any_time = std::numeric_limits<nanoseconds>::max();

struct solution {
  std::vector<treatment> treatments;
  evaluation score;  // time and memory of the treatments; score.over == 0: they fit the budget
};

// Limits of a search: tries for each class of gaps, and work in all (search_space::work).
struct effort {
  std::size_t tries_for_each = 0;
  std::uint64_t work = 0;
};

// The fastest decisions that a search of that effort finds. Equal arguments give equal decisions.
solution decide(search_space& of, byte_count budget, const effort& by);
// The same, starting from decisions for another budget.
solution decide_again(search_space& of, byte_count budget, const effort& by, const solution& from);
// The same for a smaller budget and without swaps: frees memory, then anneals.
solution recompute_more(search_space& of, byte_count budget, const effort& by, const solution& from);
// The same, starting from decisions that fit; the result is never slower.
solution keep_more(search_space& of, byte_count budget, const effort& by, const solution& from);

}  // namespace um
