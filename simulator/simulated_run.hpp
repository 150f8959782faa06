// What is simulated: a plan, and what it runs on.
#pragma once

#include "core/lower.hpp"
#include "core/machine.hpp"
#include "core/planner.hpp"

namespace um {

// In which order kernels touch what they stream: as shape_of() says of each (simulator/touch_order.hpp), or
// all in one.
enum class touch_orders : std::uint8_t { by_shape, all_waves, all_resident };

// A plan on a machine. Holds references: the four values must outlive it.
struct simulated_run {
  const graph& network;
  const execution_plan& plan;
  const machine& on;
  const profile& costs;
  slice_costs cost_of_slice = {};  // not set: as cost_of() (core/planner.hpp) says
  touch_orders order = touch_orders::by_shape;
};

}  // namespace um
