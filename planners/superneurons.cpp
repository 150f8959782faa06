#include <algorithm>

#include "planners/feature_maps.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"

namespace um {
namespace {

bool is_backward_convolution(const problem& p, const use_table& uses, position at) {
  const op& o = p.network.ops[uses.order[static_cast<std::size_t>(at)].op];
  return has_kind<convolution_backward_data, convolution_backward_filter>(o);
}

// Position at which the last backward convolution before `at` begins.
position convolution_before(const problem& p, const use_table& uses, position at) {
  while (at > uses.backward_begin && is_backward_convolution(p, uses, at)) --at;
  while (at > uses.backward_begin && !is_backward_convolution(p, uses, at)) --at;
  while (at > uses.backward_begin && is_backward_convolution(p, uses, at - 1)) --at;
  return at;
}

// The maximum of the bytes that one operator touches, without workspace.
byte_count max_touched_bytes(const use_table& uses) {
  byte_count most = 0;
  for (const std::vector<touched_part>& here : uses.touched_parts) {
    byte_count sum = 0;
    for (const touched_part& x : here) sum += uses.parts[x.part].bytes;
    most = std::max(most, sum);
  }
  return most;
}

// A run of recomputed maps is recomputed at once and stays if it takes no more than the largest operator;
// otherwise each map is recomputed right before its use.
void recompute_by_cost(const label_evaluator& on, const std::vector<gap_choice>& labels,
                       std::vector<decision>& decisions) {
  const byte_count most = max_touched_bytes(on.uses());
  for (std::size_t begin = 0, end = 0; begin < labels.size(); begin = end + 1) {
    byte_count bytes = 0;
    for (end = begin; end < labels.size() && labels[end] == gap_choice::recompute; ++end)
      bytes += on.maps()[end].bytes;
    for (std::size_t m = begin; m < end && bytes > most; ++m) {
      const std::uint32_t x = on.maps()[m].gap;
      decisions[x].return_before = on.gaps()[x].next_use;
    }
  }
}

}  // namespace

memory_plan plan_superneurons(const problem& p) {
  label_evaluator on(p);
  const auto plan = [&](byte_count room) {
    std::vector<gap_choice> labels;
    for (const feature_map& m : on.maps()) {
      const bool swaps = on.has_link_to_host() && (m.is_product_output || !m.is_recomputable);
      labels.push_back(swaps               ? gap_choice::swap
                       : m.is_recomputable ? gap_choice::recompute
                                           : gap_choice::keep);
    }
    on.keep_latest_maps(labels, room);
    for (const bool by_cost : {true, false}) {
      std::vector<decision> decisions = on.decisions_for(labels, return_timing::just_in_time);
      if (by_cost) recompute_by_cost(on, labels, decisions);
      for (std::size_t x = 0; x < decisions.size(); ++x) {
        if (decisions[x].choice == gap_choice::swap)
          decisions[x].return_before = convolution_before(p, on.uses(), on.gaps()[x].next_use);
      }
      const label_evaluator::outcome placed = on.place(std::move(decisions), room);
      if (placed.fit.peak <= room && placed.predicted.peak <= room) return on.plan(placed, "superneurons");
    }
    throw infeasible(budget_too_small_text(p, "superneurons", on.peak_of(labels)));
  };
  return plan_within(p, packers::searched, "superneurons", plan);
}

}  // namespace um
