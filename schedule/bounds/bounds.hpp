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

// Bounds for one class of plans. `swap`: for plans that recompute nothing; `recompute`: for plans that move
// nothing; `both`: for all plans of the class. no_bound: there is no such plan.
struct class_bounds {
  nanoseconds swap = 0, recompute = 0, both = 0;  // lower bounds on the time of an iteration
};

// `compute`: for every plan. `two_passes`: for plans that finish the forward pass of the whole batch before
// any backward operator; within a pass they may use any parts. Without a backward pass it equals `compute`.
// `whole_operators`: for those of them that compute whole operators in the graph's order or in one of
// whole_operator_nests(), move whole tensors, and keep every tensor on the device or staged.
struct time_bounds {
  nanoseconds compute = 0;  // sum of the times of all operators
  class_bounds two_passes;
  std::optional<class_bounds> whole_operators;  // absent in older records
};

// Each bound is the optimum of a linear program, or slightly below it.
time_bounds find_time_bounds(const problem& p);

// Classes of plans, each a subset of the one before it.
enum class plan_class : std::uint8_t { any, two_passes, whole_operators };
template <>
inline constexpr std::array enum_names<plan_class>{"any"sv, "passes"sv, "whole"sv};
struct plan_kind {
  plan_class narrowest_class = plan_class::any;  // the narrowest class that contains the plan
  bool swaps = false, recomputes = false;  // whether it moves tensors; whether it computes operators twice
};
plan_kind plan_kind_of(const graph& g, const memory_plan& plan);

// The tightest bound that applies to plans of that kind.
nanoseconds lower_bound_for(const time_bounds& b, const plan_kind& kind);

struct plan_bound {
  plan_kind kind;            // the kind of plans that it applies to
  nanoseconds min_time = 0;  // lower bound on the time of an iteration
};

}  // namespace um
