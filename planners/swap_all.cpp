#include <algorithm>

#include "planners/planners.hpp"
#include "planners/within.hpp"
#include "schedule/forecast.hpp"
#include "schedule/orders.hpp"

namespace um {

memory_plan plan_swap_all(const problem& p) {
  const graph& g = p.network;
  const use_table uses = make_use_table(g, graph_order(g));
  const std::vector<gap> gaps = find_gaps(g, uses);
  forecaster forecast(p, uses);
  struct candidate_plan {
    std::vector<decision> decisions;
    prediction predicted;
  };
  std::vector<candidate_plan> candidates;
  for (position most = uses.end();; most = most * 3 / 4) {
    const position ahead = std::min(static_cast<position>(p.knobs.at("ahead")), most);
    std::vector<decision> decisions(gaps.size());
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      const role use = g.tensors[uses.parts[gaps[i].part].tensor].role;
      const bool offloaded = use == role::activation || use == role::input;
      if (!offloaded || (gaps[i].last_use >= 0 && gaps[i].next_use - gaps[i].last_use <= ahead + 1)) continue;
      decisions[i] = {gap_choice::swap, gaps[i].last_use + most, gaps[i].next_use - ahead};
    }
    const std::vector<event> events = build_events(g, uses, gaps, decisions);
    const prediction predicted = forecast.forecast(events, find_staged_tensors(uses, gaps, decisions));
    candidates.push_back({std::move(decisions), predicted});
    if (most == 0) break;
  }
  std::ranges::stable_sort(candidates, {}, [](const candidate_plan& c) { return c.predicted.time; });
  byte_count least = std::numeric_limits<byte_count>::max();
  for (const candidate_plan& c : candidates) {
    least = std::min(least, c.predicted.peak);
    if (c.predicted.peak > p.budget) continue;
    memory_plan plan = make_plan(g, uses, gaps, c.decisions);
    if (packed_bytes(p, plan) <= p.budget) return plan;
  }
  throw infeasible("swap_all needs " + to_text(least) + " even when it fetches just in time, the budget is " +
                   to_text(p.budget) + " (weights, gradients and one operator's operands stay resident)");
}

}  // namespace um
