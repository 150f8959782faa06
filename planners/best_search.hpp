// Searches for the fastest decisions within a budget, for one order of computes.
#pragma once

#include <limits>

#include "planners/best_space.hpp"

namespace um {

// No limit on the time.
inline constexpr nanoseconds any_time = std::numeric_limits<nanoseconds>::max();

struct solution {
  std::vector<treatment> treatments;
  evaluation score;  // time and memory of the treatments; they fit the budget if score.excess is 0
};

// Limits of a search: tries per gap class, and work in all (search_space::work). decide() gives up early if
// its decisions are not likely to become faster than `time_to_beat`.
struct effort {
  std::size_t tries_per_gap_class = 0;
  std::uint64_t max_work = 0;
  nanoseconds time_to_beat = any_time;
};

// Whether a longer search may find decisions faster than `time_to_beat` if these are the best so far.
bool is_promising(const evaluation& best, nanoseconds time_to_beat);

// The fastest decisions found with that effort. Equal arguments give equal decisions.
solution decide(search_space& of, byte_count budget, const effort& by);
// The same, starting from decisions for another budget.
solution decide_again(search_space& of, byte_count budget, const effort& by, const solution& from);
// Starts from decisions for a larger budget. Frees memory by recomputation alone, then anneals.
solution recompute_more(search_space& of, byte_count budget, const effort& by, const solution& from);
// Starts from decisions that fit and keeps more; the result is never slower.
solution keep_more(search_space& of, byte_count budget, const effort& by, const solution& from);

}  // namespace um
