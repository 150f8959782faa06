#include "planners/order_of_use.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "core/lower.hpp"

namespace um {
namespace {

memory_plan restore_numbering(memory_plan plan, const std::vector<tensor_id>& number) {
  std::vector<tensor_id> back(number.size());
  for (tensor_id t = 0; t < number.size(); ++t) back[number[t]] = t;
  const std::vector<residence> home = plan.residences;
  for (tensor_id t = 0; t < number.size(); ++t) plan.residences[t] = home[number[t]];
  for (action& a : plan.actions) {
    std::visit(
        [&](auto& x) {
          if constexpr (!std::is_same_v<std::remove_reference_t<decltype(x)>, compute>)
            x.tensor = back[x.tensor];
        },
        a);
  }
  return plan;
}

// Whether the packed plan fits the budget, which depends on the numbering of tensors.
bool fits_when_packed(const problem& p, const memory_plan& plan) {
  try {
    lower(p, plan, packers::searched);
    return true;
  } catch (const infeasible&) {
    return false;
  }
}

}  // namespace

graph renumber_tensors(const graph& g, const std::vector<tensor_id>& number) {
  graph other = g;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) other.tensors[number[t]] = g.tensors[t];
  for (op& o : other.ops) {
    for (tensor_id& t : o.in) t = number[t];
    for (tensor_id& t : o.out) t = number[t];
  }
  return other;
}

std::vector<tensor_id> first_use_numbers(const graph& g) {
  const auto none = static_cast<tensor_id>(g.tensors.size());
  std::vector<tensor_id> number(g.tensors.size(), none);
  tensor_id next = 0;
  const auto name = [&](tensor_id t) {
    if (number[t] == none) number[t] = next++;
  };
  for (const op& o : g.ops) {
    for (const tensor_id t : o.in) name(t);
    for (const tensor_id t : o.out) name(t);
  }
  for (tensor_id t = 0; t < g.tensors.size(); ++t) name(t);
  return number;
}

memory_plan plan_independent_of_numbering(const problem& p, const planner& make) {
  const std::vector<tensor_id> number = first_use_numbers(p.network);
  if (std::ranges::is_sorted(number)) return make(p);
  const graph other = renumber_tensors(p.network, number);
  memory_plan plan = restore_numbering(make({other, p.operator_costs, p.target, p.budget, p.evicted_by,
                                             p.knobs, p.cost_of_slice, p.time_to_beat}),
                                       number);
  return fits_when_packed(p, plan) ? plan : make(p);
}

}  // namespace um
