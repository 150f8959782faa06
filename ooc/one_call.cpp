#include "ooc/one_call.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "planners/ooc_cudnn.hpp"
#include "planners/ooc_stream.hpp"
#include "simulator/roofline.hpp"

namespace um::ooc {
namespace {

bool takes_workspace(const op& o) {
  return std::holds_alternative<convolution>(o.what) ||
         std::holds_alternative<convolution_backward_data>(o.what) ||
         std::holds_alternative<convolution_backward_filter>(o.what);
}

}  // namespace

planned_call planned(const one_call& call, const std::vector<bool>& on_device, const machine& on,
                     byte_count budget, byte_count workspace) {
  const graph& g = call.g;
  if (const auto wrong = defect_of(g)) throw std::invalid_argument(*wrong);
  std::vector<residence> home;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    home.push_back(call.place[t] == nullptr ? residence::device
                   : on_device[t]           ? residence::host
                                            : residence::staged);
  }
  profile costs = estimate(g, on);
  for (op_id o = 0; o < g.ops.size(); ++o)
    costs[o].workspace_bytes = takes_workspace(g.ops[o]) ? workspace : 0;
  const problem p{g, costs, on, budget, pressure::none, {}};
  byte_count least = 0;
  const auto steps = divided(p, {0, static_cast<op_id>(g.ops.size()), call.what}, home, budget, least);
  if (!steps) {
    throw infeasible("the call takes " + to_text(least) +
                     " of device memory in its smallest parts, the budget is " + to_text(budget));
  }
  planned_call result{lower(p, streamed(g, home, {*steps}, false)), steps->size()};
  at_given_places(result.steps, g, call.place);
  return result;
}

void at_given_places(execution_plan& steps, const graph& g, std::span<std::byte* const> place) {
  struct home {
    byte_count begin = 0, end = 0;
    tensor_id what = 0;
  };
  std::vector<home> homes;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (!is_pinned(steps.home[t])) continue;
    const byte_count begin = steps.at_start[t].offset;
    homes.push_back({begin, begin + bytes_of(g.tensors[t]), t});
  }
  std::ranges::sort(homes, {}, &home::begin);
  const auto move = [&](address& at) {
    if (at.where != space::pinned) return;
    const auto next = std::ranges::upper_bound(homes, at.offset, {}, &home::begin);
    if (next == homes.begin() || at.offset >= std::prev(next)->end)
      throw std::logic_error("an address in pinned memory that is no tensor's");
    const home& h = *std::prev(next);
    at.offset = reinterpret_cast<std::uintptr_t>(place[h.what]) + (at.offset - h.begin);
  };
  const auto move_copies = [&](std::vector<pitched_copy>& copies) {
    for (pitched_copy& c : copies) {
      move(c.from);
      move(c.to);
    }
  };
  for (step& s : steps.steps) {
    for (operand& o : s.operands) move(o.at);
    move_copies(s.gathers);
    move_copies(s.scatters);
    move_copies(s.copies);
  }
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (!is_pinned(steps.home[t])) continue;
    move(steps.at_start[t]);
    move(steps.at_end[t]);
  }
  steps.pinned_arena_bytes = 0;
}

}  // namespace um::ooc
