// ooc_cuDNN with results kept on the device: each part of the batch runs through many calls.
#include <algorithm>
#include <limits>
#include <optional>

#include "planners/ooc_cudnn.hpp"
#include "planners/within.hpp"
#include "schedule/fit_transfers.hpp"
#include "schedule/orders.hpp"

namespace um {
namespace {

// Loops over `parts` parts of the batch, each over a run of neighbouring operators that can be split.
std::vector<batch_loop> split_loops(const graph& g, std::uint32_t parts) {
  std::vector<batch_loop> all;
  for (op_id o = 0; o < g.ops.size(); ++o) {
    if (!can_split_batch(g, g.ops[o], parts)) continue;
    if (all.empty() || all.back().end != o) all.push_back({o, o, parts});
    all.back().end = o + 1;
  }
  std::erase_if(all, [](const batch_loop& l) { return l.end - l.begin < 2; });
  return all;
}

std::vector<compute> order_in_parts(const graph& g, std::uint32_t parts) {
  const std::vector<op_id> deferred = ops_with_large_parameter_gradients(g);
  try {
    return make_order(g, {parts, {}, deferred});
  } catch (const infeasible&) {  // some operator needs the whole batch
    return make_order(g, {1, split_loops(g, parts), {}});
  }
}

struct kept_plan {
  memory_plan plan;
  nanoseconds time = 0;
};

// Swaps parts at the peak, the furthest next use first, until the rest fits. Returns nothing if the computes
// alone take `to_beat` or longer.
std::optional<kept_plan> plan_in_parts(const problem& p, std::uint32_t parts, byte_count room,
                                       nanoseconds to_beat, byte_count& least) {
  std::vector<compute> order = order_in_parts(p.network, parts);
  nanoseconds computing = 0;
  for (const compute& c : order) computing += cost_of(p, c).time;
  if (computing >= to_beat) return std::nullopt;
  const use_table uses = make_use_table(p.network, std::move(order));
  const std::vector<gap> gaps = find_gaps(p.network, uses);
  forecaster costs(p, uses);
  std::vector<decision> decisions(gaps.size());
  fit_result now = fit_transfers(p.network, uses, gaps, costs, 0, decisions);
  while (now.peak > room) {
    std::vector<std::uint32_t> across;
    for (std::uint32_t x = 0; x < gaps.size(); ++x) {
      if (decisions[x].choice == gap_choice::keep && gaps[x].last_use < now.peak_position &&
          now.peak_position < gaps[x].next_use)
        across.push_back(x);
    }
    std::ranges::stable_sort(across, std::ranges::greater{},
                             [&](std::uint32_t x) { return gaps[x].next_use; });
    byte_count over = now.peak - room;
    for (const std::uint32_t x : across) {
      if (over == 0) break;
      decisions[x].choice = gap_choice::swap;
      over -= std::min(over, uses.parts[gaps[x].part].bytes);
    }
    if (across.empty()) break;
    now = fit_transfers(p.network, uses, gaps, costs, 0, decisions);
  }
  least = std::min(least, now.peak);
  const bool swaps =
      std::ranges::any_of(decisions, [](const decision& d) { return d.choice == gap_choice::swap; });
  if (now.peak > room || (swaps && !has_link(p.target))) return std::nullopt;
  for (std::uint32_t x = 0; x < gaps.size(); ++x) decisions[x].return_before = gaps[x].last_use + 1;
  fit_transfers(p.network, uses, gaps, costs, room, decisions);
  const prediction forecast = costs.forecast(build_events(p.network, uses, gaps, decisions),
                                             find_staged_tensors(uses, gaps, decisions));
  return kept_plan{make_plan(p.network, uses, gaps, decisions), forecast.time};
}

}  // namespace

memory_plan plan_ooc_kept(const problem& p, byte_count room) {
  std::optional<kept_plan> best;
  byte_count least = std::numeric_limits<byte_count>::max();
  const std::int64_t images = batch_size(p.network);
  for (const std::uint32_t parts : {1U, 2U, 3U, 4U, 6U, 8U, 12U, 16U, 24U, 32U, 64U, 128U, 256U}) {
    if (parts > images) break;
    const nanoseconds to_beat = best ? std::min(best->time, p.time_to_beat) : p.time_to_beat;
    auto next = plan_in_parts(p, parts, room, to_beat, least);
    if (next && (!best || next->time < best->time)) best = std::move(next);
  }
  if (!best && least == std::numeric_limits<byte_count>::max()) throw too_slow("ooc_cudnn");
  if (!best) {
    throw infeasible("ooc_cudnn takes " + to_text(least) + " even where it keeps nothing, the budget is " +
                     to_text(p.budget));
  }
  return std::move(best->plan);
}

}  // namespace um
