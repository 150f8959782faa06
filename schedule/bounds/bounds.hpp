// Lower bounds on the time of an iteration, for classes of plans (README.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/names.hpp"
#include "core/planner.hpp"
#include "schedule/bounds/whole_bound.hpp"

namespace um {

// `swap`: of plans that compute nothing twice; `recompute`: of plans that move nothing; `both`: of all plans
// of a class. no_bound where there is no such plan.
struct class_bounds {
  nanoseconds swap = 0, recompute = 0, both = 0;
};

// `compute`: of every plan, the sum of its operators.
// `passes`: of plans that end the forward pass of the whole batch before any backward operator, with any
// parts within a pass. A network without a backward pass has `compute` there. `whole`: of those of them that
// compute whole operators in the graph's order, large gradients of parameters last or not, with everything on
// the device or staged.
struct time_bounds {
  nanoseconds compute = 0;
  class_bounds passes;
  std::optional<class_bounds> whole;  // files written earlier lack it
};

// Each is the optimum of a linear program, or a little below it.
time_bounds bounds_of(const problem& p);

// The narrowest class that a plan belongs to.
enum class plan_class : std::uint8_t { any, passes, whole };
template <>
inline constexpr std::array enum_names<plan_class>{"any"sv, "passes"sv, "whole"sv};
struct plan_kind {
  plan_class by = plan_class::any;      // the class whose bound holds for it
  bool swaps = false, repeats = false;  // it moves tensors; it computes operators twice
};
plan_kind kind_of(const graph& g, const memory_plan& plan);

// The bound that holds for plans of that kind.
nanoseconds bound_for(const time_bounds& b, const plan_kind& kind);

struct plan_bound {
  plan_kind of;           // the kind of plans that it bounds
  nanoseconds least = 0;  // lower bound on the time of an iteration
};

}  // namespace um
