// What is simulated: a plan, and what it runs on.
#pragma once

#include "core/lower.hpp"
#include "core/machine.hpp"
#include "core/planner.hpp"

namespace um {

// A plan on a machine. Holds references: the four values must outlive it.
struct simulated_run {
  const graph& network;
  const execution_plan& plan;
  const machine& on;
  const profile& costs;
  slice_costs cost_of_slice = {};  // not set: as cost_of() (core/planner.hpp) says
};

}  // namespace um
