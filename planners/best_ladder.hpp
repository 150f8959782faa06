// Decisions of one order of computes for a fixed ladder of budgets.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planners/best_search.hpp"

namespace um {

// One budget of a fixed ladder, which does not depend on the budget asked for. `is_searched_afresh`: searched
// from the start; other rungs start from the solutions of their neighbours.
struct rung {
  byte_count budget = 0;
  bool is_searched_afresh = false;
};

// Rungs in order of falling budgets, in steps of at least five percent. `fine`: the footprint-to-budget ratio
// rises in steps of 0.05.
std::vector<rung> ladder_of(byte_count footprint, bool fine);

// Solves one order for all rungs. First pass: searches in order of falling budgets, starting with everything
// kept, until rungs have no solution. Second pass: improves each rung in order of rising budgets. It starts
// from the faster of two solutions: the rung's own and that of the rung below. So each rung is at least as
// fast as those below it. `best_so_far`: times of other orders at each rung. Rungs where that equals the
// operators' time are skipped; the first pass ends after several rungs where this order is clearly slower.
// `most`: limits of the tries per rung and of the work in all.
std::vector<std::optional<solution>> solve_ladder(search_space& of, std::span<const rung> rungs,
                                                  std::span<const nanoseconds> best_so_far,
                                                  const effort& most);
// Improves the solutions of rungs that are close to `best_so_far`, in order of rising budgets: starts from
// the rung's own solution or the one of the rung below, and also searches the rung from the start.
void improve_ladder(search_space& of, std::span<const rung> rungs, std::span<const nanoseconds> best_so_far,
                    const effort& most, std::vector<std::optional<solution>>& found);

}  // namespace um
