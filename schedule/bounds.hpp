// Times below which no plan of a class can come, whatever it decides.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/names.hpp"
#include "core/planner.hpp"
#include "schedule/whole_bounds.hpp"

namespace um {

// `swap`: plans that compute nothing twice; `recompute`: plans that move nothing; `both`: all of a class.
// no_bound where the class has no such plan.
struct class_bounds {
  nanoseconds swap = 0, recompute = 0, both = 0;
};

// Of one iteration. `compute`: of every plan, the operators one after the other. `passes`: of plans that end
// the forward pass of the whole batch before any backward operator, with any slices within a pass: of what
// the forward pass makes and the backward pass reads only the budget can be on the device between the two;
// the rest has been copied out by then and must come back, or must be computed again. `whole`: of those of
// them that compute whole operators in the graph's order, large gradients of parameters last or not, with
// all data on the device or staged: at every instant only the budget can be on the device
// (schedule/whole_bounds.hpp). A network without a backward pass leaves `compute` for `passes`.
struct time_bounds {
  nanoseconds compute = 0;
  class_bounds passes;
  std::optional<class_bounds> whole;  // files written earlier lack it
};

// Optima of linear programs, or a little below; never above them.
time_bounds bounds_of(const problem& p);

// The narrowest of these classes that a plan belongs to.
enum class plan_class : std::uint8_t { any, passes, whole };
template <>
inline constexpr std::array enum_names<plan_class>{"any"sv, "passes"sv, "whole"sv};
struct plan_kind {
  plan_class by = plan_class::any;
  bool swaps = false, repeats = false;  // it moves something; it computes something twice
};
plan_kind kind_of(const graph& g, const memory_plan& plan);

// What holds for plans of that kind.
nanoseconds bound_for(const time_bounds& b, const plan_kind& kind);

struct plan_bound {
  plan_kind of;
  nanoseconds least = 0;
};

}  // namespace um
