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

// `swap`: for plans that compute nothing twice; `recompute`: for plans that move nothing; `both`: for all
// plans of a class. no_bound if there is no such plan.
struct class_bounds {
  nanoseconds swap = 0, recompute = 0, both = 0;
};

// `compute`: for every plan, the sum of its operators' times.
//
// `passes`: for plans that finish the forward pass of the whole batch before any backward operator; within a
// pass they may use any parts. Without a backward pass it equals `compute`. `whole`: for those plans of
// `passes` that compute whole operators in the graph's order, as it is or as one of
// whole_nests(), move tensors whole, and keep everything on the device or staged.
struct time_bounds {
  nanoseconds compute = 0;  // sum of all operators
  class_bounds passes;
  std::optional<class_bounds> whole;  // absent in records written before it existed
};

// Each bound is the optimum of a linear program, or slightly below it.
time_bounds compute_time_bounds(const problem& p);

// The narrowest class that contains a plan.
enum class plan_class : std::uint8_t { any, passes, whole };
template <>
inline constexpr std::array enum_names<plan_class>{"any"sv, "passes"sv, "whole"sv};
struct plan_kind {
  plan_class narrowest_class = plan_class::any;  // the narrowest class that contains the plan
  bool swaps = false, recomputes = false;  // whether it moves tensors; whether it computes operators twice
};
plan_kind plan_kind_of(const graph& g, const memory_plan& plan);

// The tightest bound that applies to plans of that kind.
nanoseconds bound_for(const time_bounds& b, const plan_kind& kind);

struct plan_bound {
  plan_kind kind;            // the kind of plans that it applies to
  nanoseconds min_time = 0;  // lower bound on the time of an iteration
};

}  // namespace um
