#include "schedule/bounds/lagrangian.hpp"

#include <algorithm>

#include "schedule/bounds/closure.hpp"

namespace um::whole {
namespace {

bool is_recomputable(const value& v) {
  return std::ranges::any_of(v.absences, &absence::is_recomputable);
}

}  // namespace

lagrangian::lagrangian(const model& m, allowed_moves allowed)
    : model_(m), allowed_(allowed), prices_(m, allowed) {
  excess_.byte_prices.resize(2 * m.position_count);
  excess_.lane_prices.resize(2 * m.position_count + 1);
  choices_without_recompute_.resize(m.values.size());
  choices_with_recompute_.resize(m.values.size());
}

double lagrangian::evaluate(const prices& x) {
  prices_.set_prices(x);
  std::vector<double> gain(model_.position_count, 0);
  for (std::size_t o = 0; o < model_.position_count; ++o)
    gain[o] = -model_.recompute_time[o] * prices_.min_recompute_price(o);
  double sum = 1;
  for (std::size_t i = 0; i < model_.values.size(); ++i) {
    const value& v = model_.values[i];
    tabulate_value_costs(costs_, prices_, v, allowed_.swaps);
    choices_without_recompute_[i] = cheapest_without_recompute(costs_, prices_, v);
    sum += choices_without_recompute_[i].cost;
    if (!allowed_.recomputes || !is_recomputable(v)) continue;
    choices_with_recompute_[i] =
        cheapest_with_recompute(costs_, prices_, v, model_.recomputable_value_count[v.producer] > 1);
    gain[v.producer] += choices_without_recompute_[i].cost - choices_with_recompute_[i].cost;
  }
  std::vector<bool> chosen(model_.position_count, false);
  if (allowed_.recomputes) chosen = max_weight_closure(gain, model_.required_positions);
  for (std::size_t o = 0; o < model_.position_count; ++o) sum -= chosen[o] ? gain[o] : 0;
  for (std::size_t i = 0; i < model_.fixed_share.size(); ++i)
    sum -= x.byte_prices[i] * (1 - model_.fixed_share[i]);
  for (std::size_t o = 0; o < model_.position_count; ++o)
    sum -= model_.compute_time[o] * (x.lane_prices[2 * o + 1][copy_out] + x.lane_prices[2 * o + 1][copy_in]);
  add_excess(chosen);
  return sum;
}

bool lagrangian::is_recomputed(const value& v, const std::vector<bool>& chosen) const {
  return allowed_.recomputes && is_recomputable(v) && chosen[v.producer];
}

void lagrangian::add_excess(const std::vector<bool>& chosen) {
  std::vector<double> change(2 * model_.position_count + 1, 0);
  for (auto& l : excess_.lane_prices) l = {0, 0, 0};
  for (std::size_t o = 0; o < model_.position_count; ++o) {
    if (chosen[o])
      excess_.lane_prices[prices_.cheapest_recompute_interval(o)][recompute] += model_.recompute_time[o];
  }
  for (std::size_t i = 0; i < model_.values.size(); ++i) {
    const value& v = model_.values[i];
    add_excess(v, is_recomputed(v, chosen) ? choices_with_recompute_[i] : choices_without_recompute_[i],
               change);
  }
  double here = 0;
  for (std::size_t i = 0; i < model_.fixed_share.size(); ++i) {
    here += change[i];
    excess_.byte_prices[i] = here + model_.fixed_share[i] - 1;
  }
  for (std::size_t o = 0; o < model_.position_count; ++o) {
    for (const priced_lane l : {copy_out, copy_in})
      excess_.lane_prices[2 * o + 1][l] -= model_.compute_time[o];
  }
}

void lagrangian::add_excess(const value& v, const value_choice& c, std::vector<double>& change) {
  const auto add_held_share = [&](std::size_t begin, std::size_t end) {
    if (begin >= end) return;
    change[begin] += v.budget_share;
    change[end] -= v.budget_share;
  };
  if (c.only_copy_out) excess_.lane_prices[c.only_copy_out->interval][copy_out] += v.copy_out_time;
  for (std::size_t k = 0; k < v.absences.size(); ++k) {
    const gap_use u = choose_gap_use(prices_, v, c, k);
    add_held_share(v.absences[k].begin, std::min(u.away_begin, v.absences[k].end));
    add_held_share(std::max(u.away_end, u.away_begin), v.absences[k].end);
    if (u.is_copied_in) excess_.lane_prices[u.away_end][copy_in] += v.copy_in_time;
    if (!u.is_recomputed) continue;
    excess_.lane_prices[u.away_end][recompute] += model_.recompute_time[v.producer];
    if (u.shares_run)
      excess_.lane_prices[prices_.cheapest_recompute_interval(v.producer)][recompute] -=
          model_.recompute_time[v.producer];
  }
}

}  // namespace um::whole
