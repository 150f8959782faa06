// Strategies with explicit memory: rows of a table, one planner a file.
#pragma once

#include <span>

#include "core/planner.hpp"

namespace um {

std::span<const strategy> planners();

// Everything on the device for the whole run; the baseline of every slowdown.
memory_plan plan_resident(const problem& p);

// Everything on the device, but where memory peaks, runs of operators go over the batch in `parts`
// slices, one slice through all of them after the other, so that what lies between them is held for
// one slice only. Filter and bias gradients add up in the order of the slices. Runs are chosen by
// trying: each lowers the peak most of all that hold the operator at the peak, the shortest of equals.
// Operators that need the whole batch (normalisation with batch statistics) stay whole.
memory_plan plan_sliced(const problem& p);

// Offloads every activation that the backward pass needs later to pinned host memory as soon as
// its use is over, and fetches it `ahead` operators before the next one (vDNN's "all" policy:
// Rhu et al., MICRO 2016). An offloaded tensor keeps its place for some operators more, so that
// the copy hides behind them. Where the budget is too small for that, the longest stretch that
// fits, with look-ahead and delay cut alike; throws infeasible if not even 0 fits.
memory_plan plan_swap_all(const problem& p);

// Computes `k` parts of the batch one after the other, each through forward pass, loss and backward pass;
// gradients add up (micro-batches: Huang et al., GPipe, NeurIPS 2019). Nothing is moved. k = 0: as few as fit
// the budget. Throws infeasible, naming the operator, where one needs the statistics of the whole batch, and
// with k = 0 where no k fits.
memory_plan plan_micro_batches(const problem& p);

// The best that a search over keep, swap and compute again for every tensor and over parts of the batch finds
// (docs/best.md). The same problem gives the same plan. Throws infeasible where it finds none.
memory_plan plan_best(const problem& p);

}  // namespace um
