// The input of a simulation: a plan and a machine.
#pragma once

#include "core/lower.hpp"
#include "core/machine.hpp"
#include "core/planner.hpp"

namespace um {

// The order in which kernels touch streamed operands: by grid_of() of each operator
// (simulator/touch_order.hpp); all by address; or all what is on the device before what is missing.
enum class touch_orders : std::uint8_t { by_grid, by_address, hits_first };

// A plan on a machine. Holds references: the four values must outlive it.
struct simulated_run {
  const graph& network;
  const execution_plan& plan;
  const machine& on;
  const profile& costs;            // one per operator
  slice_costs cost_of_slice = {};  // not set: as cost_of() (core/planner.hpp) says
  touch_orders order = touch_orders::by_grid;
};

}  // namespace um
