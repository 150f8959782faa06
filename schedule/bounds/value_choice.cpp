#include "schedule/bounds/value_choice.hpp"

#include <algorithm>
#include <limits>

namespace um::whole {
namespace {

constexpr double unlimited = std::numeric_limits<double>::max();

// Whether the value need not return to the device after this gap, which is its last.
bool needs_no_return(const value& v, std::size_t gap) {
  return v.ends_on_host && gap + 1 == v.absences.size();
}

// A cost above that of any plan, in units of the operators' time.
constexpr double forbidden = 1e6;

double keep_cost(const price_index& at, const value& v, const absence& s) {
  return s.must_leave() ? forbidden : at.holding_cost(v, s.begin, s.end);
}
std::size_t earliest_return(const absence& s, std::size_t leaves) {
  return std::max(leaves, s.room_again);
}

// Cost of a gap without a copy: the cheaper of keeping the value and, where allowed, recomputing it.
double cost_without_copy(const price_index& at, const value& v, const value_choice& c, std::size_t gap,
                         double kept) {
  const absence& s = v.absences[gap];
  if (!c.recomputes || !s.is_recomputable) return kept;
  return at.min_return_cost(v, s, at.return_by_recompute(v, c.shares_run(gap)), earliest_return(s, s.begin),
                            kept);
}

// Adds the candidates for a copy out between `begin` and the end of a gap; others cannot be optimal.
void add_copy_out_candidates(value_costs& costs, const price_index& at, const value& v, std::size_t gap,
                             std::size_t begin) {
  const absence& s = v.absences[gap];
  const bool ends = needs_no_return(v, gap);
  costs.return_costs.clear();
  double back_from_start = 0;
  if (!ends) {
    back_from_start = at.for_each_return_interval(
        v, s, at.return_by_copy(v), earliest_return(s, s.begin), unlimited,
        [&](std::size_t i, double least) { costs.return_costs.emplace_back(i, least); });
  }
  costs.away_cost.push_back(back_from_start);
  const std::size_t latest = s.must_leave() ? s.first_without_room : s.end;
  for (std::size_t i = begin; i <= latest; i = at.cheaper_copy_out_after(i)) {
    const std::size_t leaves = std::max(i, s.begin);
    while (!ends && costs.return_costs.back().first < leaves) costs.return_costs.pop_back();
    const double back = ends ? 0 : costs.return_costs.back().second;
    costs.copy_out_candidates.push_back(
        {i, gap, v.copy_out_time * at.lane_price(i, copy_out), at.holding_cost(v, s.begin, leaves) + back});
  }
}

// Chooses the best interval for the value's only copy out, or no copy. After that copy, the value may be off
// the device in every gap.
value_choice with_best_copy_out(value_costs& costs, const price_index& at, const value& v, value_choice c) {
  costs.cost_without_copy.clear();
  for (std::size_t k = 0; k < v.absences.size(); ++k) {
    costs.cost_without_copy.push_back(cost_without_copy(at, v, c, k, costs.keep_cost[k]));
    c.cost += costs.cost_without_copy[k];
  }
  const std::vector<double>&away = costs.away_cost, &stays = costs.cost_without_copy;
  double before = 0, behind = 0;
  for (std::size_t k = 0; k < away.size(); ++k) behind += std::min(away[k], stays[k]);
  auto copy = costs.copy_out_candidates.begin();
  for (std::size_t k = 0; k < away.size(); ++k) {
    behind -= std::min(away[k], stays[k]);
    for (; copy != costs.copy_out_candidates.end() && copy->gap == k; ++copy) {
      const double cost = before + copy->price + std::min(stays[k], copy->away_cost) + behind;
      if (cost >= c.cost) continue;
      c.cost = cost;
      c.only_copy_out = chosen_copy{copy->interval, k};
    }
    before += stays[k];
  }
  return c;
}

// Whether the value must be copied in before its first use, since it starts on the host only.
bool must_return_before_first_use(const value& v, std::size_t gap) {
  return gap == 0 && v.starts_on_host;
}

// For a value with a valid host copy: the cheaper of staying on the device throughout and of leaving without
// a copy and being copied in again.
value_choice cheapest_without_copy_out(const value_costs& costs, const price_index& at, const value& v) {
  value_choice c;
  double resident = 0;
  for (std::size_t k = 0; k < v.absences.size(); ++k) {
    resident += costs.keep_cost[k];
    if (needs_no_return(v, k)) continue;
    const absence& s = v.absences[k];
    const double cost = at.min_return_cost(v, s, at.return_by_copy(v), earliest_return(s, s.begin));
    c.cost += must_return_before_first_use(v, k) ? cost : std::min(cost, costs.keep_cost[k]);
  }
  c.stays_in_all_gaps = resident <= c.cost;
  if (c.stays_in_all_gaps) c.cost = resident;
  return c;
}

gap_use gap_use_without_copy_out(const price_index& at, const value& v, const value_choice& c,
                                 std::size_t gap) {
  const absence& s = v.absences[gap];
  if (c.stays_in_all_gaps) return {s.end, s.end};
  if (needs_no_return(v, gap)) return {s.begin, s.end};
  const std::size_t from = earliest_return(s, s.begin);
  const double cost = at.min_return_cost(v, s, at.return_by_copy(v), from);
  if (!must_return_before_first_use(v, gap) && cost >= keep_cost(at, v, s)) return {s.end, s.end};
  return {s.begin, at.first_return_interval(v, s, at.return_by_copy(v), from, cost), true};
}

}  // namespace

void tabulate_value_costs(value_costs& costs, const price_index& at, const value& v, bool swaps) {
  costs.keep_cost.clear();
  for (const absence& s : v.absences) costs.keep_cost.push_back(keep_cost(at, v, s));
  costs.away_cost.clear();
  costs.copy_out_candidates.clear();
  if (!swaps || v.leaves_without_copy) return;
  std::size_t begin = v.first_leave_interval;
  for (std::size_t k = 0; k < v.absences.size(); ++k) {
    add_copy_out_candidates(costs, at, v, k, begin);
    begin = v.absences[k].end + 1;
  }
}

value_choice cheapest_without_recompute(value_costs& costs, const price_index& at, const value& v) {
  return v.leaves_without_copy ? cheapest_without_copy_out(costs, at, v)
                               : with_best_copy_out(costs, at, v, {});
}

value_choice cheapest_with_recompute(value_costs& costs, const price_index& at, const value& v,
                                     bool shares_producer) {
  if (v.leaves_without_copy) return cheapest_without_copy_out(costs, at, v);
  value_choice c;
  c.recomputes = true;
  if (shares_producer) {
    c.shared_end = v.absences.size();
    return with_best_copy_out(costs, at, v, c);
  }
  value_choice best;
  best.cost = unlimited;
  for (std::size_t k = 0; k < v.absences.size(); ++k) {
    if (!v.absences[k].is_recomputable) continue;
    c.shared_begin = k;
    c.shared_end = k + 1;
    const value_choice here = with_best_copy_out(costs, at, v, c);
    if (here.cost < best.cost) best = here;
  }
  return best;
}

gap_use choose_gap_use(const price_index& at, const value& v, const value_choice& c, std::size_t gap) {
  const absence& s = v.absences[gap];
  if (v.leaves_without_copy) return gap_use_without_copy_out(at, v, c, gap);
  const double kept = keep_cost(at, v, s), stays = cost_without_copy(at, v, c, gap, kept);
  if (c.only_copy_out && gap >= c.only_copy_out->gap) {
    const std::size_t leaves =
        gap == c.only_copy_out->gap ? std::max(c.only_copy_out->interval, s.begin) : s.begin;
    const bool ends = needs_no_return(v, gap);
    const std::size_t from = earliest_return(s, leaves);
    const double back = ends ? 0 : at.min_return_cost(v, s, at.return_by_copy(v), from);
    if (back + at.holding_cost(v, s.begin, leaves) < stays)
      return {leaves, ends ? s.end : at.first_return_interval(v, s, at.return_by_copy(v), from, back), !ends};
  }
  if (stays >= kept) return {s.end, s.end};
  const bool shared = c.shares_run(gap);
  const std::size_t from = earliest_return(s, s.begin);
  return {s.begin, at.first_return_interval(v, s, at.return_by_recompute(v, shared), from, stays), false,
          true, shared};
}

}  // namespace um::whole
