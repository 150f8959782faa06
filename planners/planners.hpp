// Strategies with explicit memory, one planner per file.
#pragma once

#include <span>

#include "core/planner.hpp"

namespace um {

std::span<const strategy> planners();

// Keeps everything on the device for the whole run: the baseline of every slowdown.
memory_plan plan_resident(const problem& p);

// Offloads every activation that the backward pass needs to pinned host memory right after its last use in
// the forward pass, and fetches it `ahead` operators before its next use (vDNN's "all" policy: Rhu et al.,
// MICRO 2016). An offloaded tensor keeps its memory for some more operators, so that they hide the copy. If
// the budget is too small, the look-ahead and this delay are cut to the longest that fit. Throws infeasible
// if not even 0 fits.
memory_plan plan_swap_all(const problem& p);

// Computes `k` parts of the batch one after the other, each through forward pass, loss and backward pass;
// gradients add up (micro-batches: Huang et al., GPipe, NeurIPS 2019). Moves nothing. k = 0: the fewest parts
// that fit the budget. Throws infeasible, naming the operator, if one needs statistics of the whole batch,
// and with k = 0 if no k fits.
memory_plan plan_micro_batches(const problem& p);

// The best plan found by a search over keep, swap and recompute for every tensor and over splits of the batch
// (docs/method/best.md). Knobs `copies` and `copy_us`: assumed cost of copies beyond their simulated time, in
// percent of their time and in microseconds each. With both 0, no other planner's plan simulates faster. The
// same problem gives the same plan. Throws infeasible if the search finds no plan.
memory_plan plan_best(const problem& p);

// The same search with the data in managed memory: kept tensors are managed, swapped ones get a twin, and
// recomputed ones stay in device memory, since discarding and populating would cost more. Tries plans with
// and without swaps and with more or less of the data managed. Returns the one that simulates fastest.
memory_plan plan_best_managed(const problem& p);

// vDNN (Rhu et al., MICRO 2016). If the backward pass needs the input of a layer, it leaves after its last
// reader in the forward pass: for all layers before the first fully connected one (vdnn_all), or for
// convolutions (vdnn_conv). In the backward pass each layer fetches what the nearest earlier layer offloaded,
// looking no further than the next convolution. Both streams wait for each other at the end of a layer
// (memory_plan::joins). A layer consists of the operators of one name in one pass. `fastest` 0: convolutions
// without workspace, 1: the fastest. vdnn_dyn tries, like the paper's profiling passes, first no offloading,
// then convolutions, then all layers, each with the fastest algorithms. Then it gives convolutions less
// workspace, one after the other, where the budget is exceeded, and at last none to all. No variant moves
// weights, gradients or the classifier's maps, cuts operators or recomputes: infeasible if that does not fit.
// On a simulated machine operators have no workspace, so `fastest` changes nothing.
memory_plan plan_vdnn_all(const problem& p);
memory_plan plan_vdnn_conv(const problem& p);
memory_plan plan_vdnn_dyn(const problem& p);

// PoocH (Ito et al., arXiv 1907.05013, and its code). Forecasts of the iteration decide for every map that
// the backward pass reads whether to keep, swap or recompute it. 0 switches a phase off. `keep` (phase 1):
// starts with all maps swapped and keeps those that need not be. `recompute` (phase 2): recomputes maps if
// that costs less than their copies. `schedule` (phase 3): 0: copies back begin when they are needed; 1: as
// early as there is room; 2: as late as they are hidden. Phase 2 updates ratios only for the best map. The
// paper's waiting for the oldest copy when memory is full happens here at planning time. Weights and
// gradients stay; nothing is cut. Without a link, maps are recomputed, the least time per byte first, until
// the rest fits.
memory_plan plan_pooch(const problem& p);

// SuperNeurons (Wang et al., PPoPP 2018), in the form that PoocH compares with. The last maps stay as long as
// there is room. Of the others, outputs of convolutions and fully connected layers are swapped and return at
// the preceding backward convolution; the rest is recomputed. A run of recomputed maps is recomputed together
// if it is no larger than the largest operator's operands, otherwise one by one. The backend chooses the
// workspace of each step.
memory_plan plan_superneurons(const problem& p);

// Capuchin (Peng et al., ASPLOS 2020). While the peak exceeds the budget, it swaps the map with the longest
// time between two uses beyond its copies, if that hides them. Otherwise it takes the faster of two: the swap
// whose copies delay computes least, or the recomputation that frees the most bytes per second. Accesses are
// known from the graph instead of a first iteration. Copies return as late as the link allows all to be in
// time, which the paper finds by feedback.
memory_plan plan_capuchin(const problem& p);

// Checkmate's problem (Jain et al., MLSys 2020): the least time if nothing moves and maps may be recomputed.
// Solved by a greedy search, not by its integer program: drops maps at the peak, the least recomputation time
// per byte first, until the rest fits; then keeps those again that still fit. So it can miss plans that
// exist.
memory_plan plan_checkmate(const problem& p);

// AutoSwap (Zhang et al., arXiv 1903.06631). Tensors of at least 1 MiB that are unused at the peak are
// swapped in the order of `score` until the live bytes keep within the budget. 0: duration of absence, 1:
// that times bytes, 2: area under the curve of live bytes, 3: the same area after the swaps chosen before, 4:
// the best of 44 weighted sums, which replace the paper's Bayesian optimisation. Each tensor is swapped at
// most once, over the peak. Nothing is cut or recomputed, so it is infeasible below the smallest peak that
// such swaps reach. Here an unchanged weight leaves without a copy.
memory_plan plan_autoswap(const problem& p);

// ooc_cuDNN (Ito, Matsumiya, Endo, IEEE BigData 2017, and its code). Tensors lie on the device, first come,
// first served, within `share` percent of the budget; the rest lies in host memory. Each call (an operator,
// or several that a fused function computes) runs in parts of the batch, rows and channels, as its
// performance model decides (ooc_calls.hpp). Staged operands stream through three sets of staging buffers in
// the remaining memory. All lanes join at the end of a call, and each part copies its filters again.
// Operators' times are the backend's; the paper fits them to two sizes. A call that fits whole is not
// divided. Two copies of one region are never held, so a filter that is copied again waits for the previous
// part, unlike in the paper. keep 1: without joins and repeated copies; each part of the batch goes through
// as many calls as possible, with the number of parts that takes the least time.
memory_plan plan_ooc_cudnn(const problem& p);
// tvDNN (Park et al., PPoPP 2018), a reconstruction from a poster: objects are cut into sections and swapped,
// by an integer program or by heuristics. Operators loop over sections of the batch, one operator after the
// other: `sections` where operands are largest (0: the fewest that fit, or twice as many), fewer where they
// are smaller. An operator that needs the whole batch takes all sections at once. tvdnn: if room is short,
// the section with the furthest next use or the longest gap leaves, and returns as early as there is room.
// tvdnn_ilp: solves an integer program over gaps (schedule/milp/gap_model.hpp) with `slots` time slots and at
// most `nodes` nodes of its search tree, and takes its result if its forecast is faster. Nothing is
// recomputed. tvdnn_ilp throws unsupported without HiGHS.
memory_plan plan_tvdnn(const problem& p);
memory_plan plan_tvdnn_ilp(const problem& p);

}  // namespace um
