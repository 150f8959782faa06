#include "schedule/bounds/value_choice.hpp"

#include <algorithm>
#include <limits>

namespace um::whole {
namespace {

constexpr double unlimited = std::numeric_limits<double>::max();

// The value need not come back after its last gap.
bool is_last(const value& v, std::size_t gap) {
  return v.stays_home && gap + 1 == v.away.size();
}

// Kept, or computed again for less.
double without_copies(const price_index& at, const value& v, const value_choice& c, std::size_t gap,
                      double kept) {
  const absence& s = v.away[gap];
  if (!c.recomputes || !s.recomputable) return kept;
  return at.least_return(v, s, at.by_run(v, c.shares_run(gap)), s.first, kept);
}

// Adds the copies out that may be best of those from `begin` to the end of a gap.
void add_copies(value_costs& costs, const price_index& at, const value& v, std::size_t gap,
                std::size_t begin) {
  const absence& s = v.away[gap];
  const bool ends = is_last(v, gap);
  costs.returns.clear();
  double back_from_start = 0;
  if (!ends) {
    back_from_start =
        at.for_each_return(v, s, at.by_copy(v), s.first, unlimited,
                           [&](std::size_t i, double least) { costs.returns.emplace_back(i, least); });
  }
  costs.away.push_back(back_from_start);
  for (std::size_t i = begin; i <= s.last; i = at.cheaper_after(i)) {
    const std::size_t leaves = std::max(i, s.first);
    while (!ends && costs.returns.back().first < leaves) costs.returns.pop_back();
    const double back = ends ? 0 : costs.returns.back().second;
    costs.copies.push_back(
        {i, gap, v.out * at.price(i, copy_out), at.cost_of_holding(v, s.first, leaves) + back});
  }
}

// Copied out once, in some interval, from then on each gap may go without; or never.
value_choice with_best_copy(value_costs& costs, const price_index& at, const value& v, value_choice c) {
  costs.stays.clear();
  for (std::size_t k = 0; k < v.away.size(); ++k) {
    costs.stays.push_back(without_copies(at, v, c, k, costs.kept[k]));
    c.cost += costs.stays[k];
  }
  const std::vector<double>&away = costs.away, &stays = costs.stays;
  double before = 0, behind = 0;
  for (std::size_t k = 0; k < away.size(); ++k) behind += std::min(away[k], stays[k]);
  auto copy = costs.copies.begin();
  for (std::size_t k = 0; k < away.size(); ++k) {
    behind -= std::min(away[k], stays[k]);
    for (; copy != costs.copies.end() && copy->gap == k; ++copy) {
      const double cost = before + copy->price + std::min(stays[k], copy->away) + behind;
      if (cost >= c.cost) continue;
      c.cost = cost;
      c.out = chosen_copy{copy->interval, k};
    }
    before += stays[k];
  }
  return c;
}

// A clean value that is at home at the start has to come in before its first use.
bool must_come(const value& v, std::size_t gap) {
  return gap == 0 && v.from_home;
}

// At home from the start: it lies on the device throughout, or comes in and leaves without a copy.
value_choice cheapest_clean(const value_costs& costs, const price_index& at, const value& v) {
  value_choice c;
  double resident = 0;
  for (std::size_t k = 0; k < v.away.size(); ++k) {
    resident += costs.kept[k];
    if (is_last(v, k)) continue;
    const double cost = at.least_return(v, v.away[k], at.by_copy(v), v.away[k].first);
    c.cost += must_come(v, k) ? cost : std::min(cost, costs.kept[k]);
  }
  c.resident = resident <= c.cost;
  if (c.resident) c.cost = resident;
  return c;
}

gap_use use_of_clean(const price_index& at, const value& v, const value_choice& c, std::size_t gap) {
  const absence& s = v.away[gap];
  if (c.resident) return {s.last, s.last};
  if (is_last(v, gap)) return {s.first, s.last};
  const double cost = at.least_return(v, s, at.by_copy(v), s.first);
  if (!must_come(v, gap) && cost >= at.cost_of_holding(v, s.first, s.last)) return {s.last, s.last};
  return {s.first, at.first_return(v, s, at.by_copy(v), s.first, cost), true};
}

}  // namespace

void tabulate(value_costs& costs, const price_index& at, const value& v, bool swaps) {
  costs.kept.clear();
  for (const absence& s : v.away) costs.kept.push_back(at.cost_of_holding(v, s.first, s.last));
  costs.away.clear();
  costs.copies.clear();
  if (!swaps || v.clean) return;
  std::size_t begin = v.made;
  for (std::size_t k = 0; k < v.away.size(); ++k) {
    add_copies(costs, at, v, k, begin);
    begin = v.away[k].last + 1;
  }
}

value_choice cheapest_without_recompute(value_costs& costs, const price_index& at, const value& v) {
  return v.clean ? cheapest_clean(costs, at, v) : with_best_copy(costs, at, v, {});
}

value_choice cheapest_with_recompute(value_costs& costs, const price_index& at, const value& v,
                                     bool shares_producer) {
  if (v.clean) return cheapest_clean(costs, at, v);
  value_choice c;
  c.recomputes = true;
  if (shares_producer) {
    c.shared_end = v.away.size();
    return with_best_copy(costs, at, v, c);
  }
  value_choice best;
  best.cost = unlimited;
  for (std::size_t k = 0; k < v.away.size(); ++k) {
    if (!v.away[k].recomputable) continue;
    c.shared_begin = k;
    c.shared_end = k + 1;
    const value_choice here = with_best_copy(costs, at, v, c);
    if (here.cost < best.cost) best = here;
  }
  return best;
}

gap_use use_of(const price_index& at, const value& v, const value_choice& c, std::size_t gap) {
  const absence& s = v.away[gap];
  if (v.clean) return use_of_clean(at, v, c, gap);
  const double stays = without_copies(at, v, c, gap, at.cost_of_holding(v, s.first, s.last));
  if (c.out && gap >= c.out->gap) {
    const std::size_t leaves = gap == c.out->gap ? std::max(c.out->interval, s.first) : s.first;
    const bool ends = is_last(v, gap);
    const double back = ends ? 0 : at.least_return(v, s, at.by_copy(v), leaves);
    if (back + at.cost_of_holding(v, s.first, leaves) < stays)
      return {leaves, ends ? s.last : at.first_return(v, s, at.by_copy(v), leaves, back), !ends};
  }
  if (stays >= at.cost_of_holding(v, s.first, s.last)) return {s.last, s.last};
  const bool shared = c.shares_run(gap);
  return {s.first, at.first_return(v, s, at.by_run(v, shared), s.first, stays), false, true, shared};
}

}  // namespace um::whole
