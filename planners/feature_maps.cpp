#include "planners/feature_maps.hpp"

#include <algorithm>

#include "planners/within.hpp"
#include "schedule/orders.hpp"
#include "schedule/transfers.hpp"

namespace um {
namespace {

bool is_product(const op& o) {
  return has_kind<convolution, linear>(o);
}

}  // namespace

label_evaluator::label_evaluator(const problem& p)
    : p_(p),
      uses_(make_use_table(p.network, graph_order(p.network))),
      gaps_(find_gaps(p.network, uses_)),
      forecaster_(p, uses_),
      builder_(p.network, uses_, gaps_),
      minimum_(p.network, uses_, gaps_, forecaster_) {
  const graph& g = p.network;
  std::vector<bool> is_map(uses_.parts.size(), false);
  for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
    const gap& e = gaps_[x];
    const tensor& t = g.tensors[uses_.parts[e.part].tensor];
    if (t.role != role::activation || element_count(t.shape) <= t.shape.c || !spans_both_passes(g, uses_, e))
      continue;
    maps_.push_back({x, e.part, uses_.parts[e.part].bytes, e.is_recomputable, false});
    is_map[e.part] = true;
  }
  std::ranges::stable_sort(maps_, {}, [&](const feature_map& m) { return gaps_[m.gap].producer; });
  // Per part: whether recomputing it runs a convolution or a matrix product.
  std::vector<bool> by_product(uses_.parts.size(), false);
  for (position at = 0; at < uses_.end(); ++at) {
    const std::vector<touched_part>& here = uses_.touched_parts[static_cast<std::size_t>(at)];
    bool product = is_product(g.ops[uses_.order[static_cast<std::size_t>(at)].op]);
    for (const touched_part& x : here)
      product = product || (x.mode == access_mode::read && by_product[x.part] && !is_map[x.part]);
    for (const touched_part& x : here) {
      if (x.mode != access_mode::read) by_product[x.part] = product;
    }
  }
  for (feature_map& m : maps_) m.is_product_output = by_product[m.part];
}

bool label_evaluator::has_link_to_host() const {
  return has_link(p_.target);
}

std::vector<decision> label_evaluator::decisions_for(const std::vector<gap_choice>& labels,
                                                     return_timing when) const {
  std::vector<decision> all(gaps_.size());
  for (std::size_t m = 0; m < maps_.size(); ++m) {
    const std::uint32_t x = maps_[m].gap;
    all[x] = {labels[m], gaps_[x].last_use,
              labels[m] == gap_choice::swap ? gaps_[x].next_use : gaps_[x].last_use};
  }
  if (when == return_timing::just_in_time || !has_link_to_host()) return all;
  if (when == return_timing::late) place_transfers(forecaster_, uses_, gaps_, all);
  for (decision& d : all) {
    if (d.choice == gap_choice::swap)
      d.return_before = std::max(when == return_timing::late ? d.return_before : 0, uses_.backward_begin);
  }
  return all;
}

label_evaluator::outcome label_evaluator::place(std::vector<decision> decisions, byte_count room) {
  outcome o;
  o.fit = fit_transfers(builder_, uses_, gaps_, forecaster_, room, decisions);
  if (o.fit.peak <= room) {
    const std::vector<bool> staged_tensors = find_staged_tensors(uses_, gaps_, decisions);
    const std::span<const event> events = builder_.build(decisions, staged_tensors);
    o.events.assign(events.begin(), events.end());
    o.predicted =
        o.fit.last_forecast ? *o.fit.last_forecast : forecaster_.forecast_memory(o.events, staged_tensors);
    forecaster_.add_time(o.events, staged_tensors, o.predicted);
  }
  o.decisions = std::move(decisions);
  return o;
}

memory_plan label_evaluator::plan(const outcome& placed, const std::string& strategy) const {
  constexpr nanoseconds error = 8;  // forecasts exceeded the simulated time by up to one part in this many
  if (placed.predicted.time - placed.predicted.time / error >= p_.time_to_beat)
    throw too_slow(strategy, true);
  return plan(placed.decisions);
}

void label_evaluator::keep_latest_maps(std::vector<gap_choice>& labels, byte_count room) {
  for (std::size_t m = labels.size(); m-- > 0;) {
    const gap_choice before = labels[m];
    labels[m] = gap_choice::keep;
    if (before != gap_choice::keep && peak_of(labels) > room) labels[m] = before;
  }
}

std::string budget_too_small_text(const problem& p, const std::string& strategy, byte_count need) {
  return strategy + " needs " + to_text(need) + ", the budget is " + to_text(p.budget) +
         " (weights, gradients and one operator's operands stay resident)";
}

}  // namespace um
