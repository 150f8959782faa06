// Strategies with explicit memory: rows of a table, one planner a file.
#pragma once

#include <span>

#include "core/planner.hpp"

namespace um {

std::span<const strategy> planners();

// Everything on the device for the whole run; the baseline of every slowdown.
memory_plan plan_resident(const problem& p);

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
// (docs/method/best.md). Knobs `copies` and `copy_us`: what copies are taken to cost beyond what a simulation
// says, in percent of their time and in microseconds each; with 0 no other planner's plan simulates faster.
// The same problem gives the same plan. Throws infeasible where it finds none.
memory_plan plan_best(const problem& p);

// The same decisions with the data in managed memory: what stays is managed, what is swapped is twinned, what
// is given up and computed again lies on the device, where a discard and populating would cost more. Of plans
// with swaps and without, and with more or less of the data managed, that which simulates fastest.
memory_plan plan_best_managed(const problem& p);

// vDNN (Rhu et al., MICRO 2016). The input of every layer before the first fully connected one (vdnn_all), or
// of every convolution (vdnn_conv), leaves once its last reader in the forward pass has run, if the backward
// pass needs it. There each layer fetches what the nearest earlier layer offloaded, looking no further than
// the next convolution. Both streams wait for each other where a layer ends (memory_plan::joins). A layer is
// the operators of one name in one pass. `fastest` 0: convolutions without workspace, 1: the fastest.
// vdnn_dyn tries, as the paper's profiling passes do, what offloads nothing, then convolutions, then all,
// each with the fastest; then lets convolutions, one after the other, take less workspace where the budget is
// exceeded, and at last all without any. None of them moves weights, gradients or the classifier's maps, cuts
// anything, computes anything again or adapts to the budget otherwise: infeasible where that does not fit.
// On a simulated machine operators have no workspace, so that `fastest` changes nothing.
memory_plan plan_vdnn_all(const problem& p);
memory_plan plan_vdnn_conv(const problem& p);
memory_plan plan_vdnn_dyn(const problem& p);

// PoocH (Ito et al., arXiv 1907.05013, and its code). Every map that the backward pass reads is kept, swapped
// or computed again, as forecasts of the iteration say. 0 switches a phase off: `keep` (1: from all swapped
// to what need not be), `recompute` (2: where that costs less than the copies), `schedule` (0: copies come
// back when they are needed; 1: as early as there is room; 2: as late as they hide, phase 3). Phase 2 works
// out ratios anew only for the best. What the paper does at run time, to wait for the oldest copy when memory
// is full, is planned. Weights and gradients stay; nothing is cut. Without a link, maps are computed again,
// the cheapest for their bytes first, until the rest fits.
memory_plan plan_pooch(const problem& p);

// SuperNeurons (Wang et al., PPoPP 2018), as PoocH compares with it. The last maps stay as long as there is
// room; of the others those that convolutions and fully connected layers made are swapped, and come back at
// the convolution before; the rest is computed again, a run at once if it is no larger than the largest
// operator's operands, else one by one. Choosing the workspace of each step is left to the backend.
memory_plan plan_superneurons(const problem& p);

// Capuchin (Peng et al., ASPLOS 2020). While too much lives at the peak: the map that stays unused longest
// beyond its copies is swapped if they hide; else the swap that shows least or the recomputation that saves
// most bytes a second, whichever takes less. Accesses are known from the graph instead of a first iteration,
// and copies come back as late as the link lets all be in time, which the paper finds by feedback.
memory_plan plan_capuchin(const problem& p);

// Checkmate's problem (Jain et al., MLSys 2020): the least time if nothing moves and maps may be computed
// again. Solved by trying, not by its integer program: at the peak, that which costs least for the bytes it
// saves, until it fits; then what need not be given up is kept. So it can miss plans that exist.
memory_plan plan_checkmate(const problem& p);

// AutoSwap (Zhang et al., arXiv 1903.06631). Tensors of 1 MiB and more that are not used at the peak leave in
// the order of `score` until the load keeps within the budget: 0 duration of absence, 1 times bytes, 2 area
// under the load, 3 the same under the load that the tensors taken before leave, 4 the best of 44 weighted
// sums, which stand for the paper's Bayesian optimisation. One absence a tensor, over the peak only; nothing
// is cut or computed again, so that it is infeasible below the least peak that such swaps reach. A clean
// weight leaves without a copy here.
memory_plan plan_autoswap(const problem& p);

// ooc_cuDNN (Ito, Matsumiya, Endo, IEEE BigData 2017, and its code). Tensors lie on the device first come,
// first served, within `share` percent of the budget, the rest in host memory; each call (an operator, or
// what a fused function joins) goes in parts of the batch, rows and channels, as its performance model says
// (ooc_model.hpp), operands at home streaming through three sets of staging memory in what is left. All lanes
// join where a call ends, and each part copies its filters again. Times of operators are those of the
// backend, where the paper's are fitted to two sizes. What fits whole is not steps_within. The same region is
// not held twice, so that a filter copied again waits for the part before, which the paper's need not. keep
// 1: without joins and copies again, parts of the batch going through as many calls as they can, in their
// number and order of the least time.
memory_plan plan_ooc_cudnn(const problem& p);
// tvDNN (Park et al., PPoPP 2018: a poster; objects are cut into sections and swapped, by an integer program
// or by heuristics). What follows is a reconstruction. Operators go over the batch in sections, one operator
// after the other: `sections` where operands are largest (0: the fewest that fit, or twice as many), fewer
// where they are smaller; an operator that needs the whole batch takes all sections at once. tvdnn: where
// room is short, what is needed last leaves, or what is away longest; it comes back as early as there is
// room. tvdnn_ilp: an integer program over gaps (schedule/milp/gap_model.hpp) of `slots` runs of operators,
// `nodes` of its tree, where that is forecast to be faster. Nothing is computed again. The latter throws
// unsupported without HiGHS.
memory_plan plan_tvdnn(const problem& p);
memory_plan plan_tvdnn_ilp(const problem& p);

}  // namespace um
