// A cell: an experiment whose names have been looked up. Code that runs, records or compares it needs no
// further lookup.
#pragma once

#include <optional>
#include <string>

#include "core/graph.hpp"
#include "core/machine.hpp"
#include "harness/study/experiment.hpp"
#include "harness/study/plan_file.hpp"

namespace um {

// Completes the network's knobs and memory order and builds it. Throws input_error for an unknown network or
// an impossible size.
built_network complete_and_build(network_spec spec);

struct cell {
  experiment settings;  // with all defaults: knobs, mode, memory order and workspace cap
  built_network network;
  strategy_choice strategy;  // nullptr: the plan comes from a file
  backend_name backend;
  std::string key;       // its key in a file, which contains every field that affects the measurement
  std::string line_key;  // the key without ratio or budget

  // Data that its process needs, so that it does not read files.
  std::optional<machine> planner_machine =
      {};  // the simulated machine or, on a GPU, the machine whose figures planners use
  std::optional<plan_file> plan = {};
  bool skips_observation = false;  // skip observation and counting around the timed iterations
  std::string values_folder =
      {};  // folder for the tensors that survive (execution_request::values); "": none
};

// Adds defaults and looks up all names. With a plan, the strategy is the plan's, named "plan:...". Throws
// input_error for an unknown name or knob, a value out of range, a mode that the backend does not have, or
// both a ratio and a budget.
cell complete_cell(experiment e, std::optional<plan_file> plan = {});
// As above, with a known network and strategy.
cell complete_cell(experiment e, built_network network, strategy_choice choice);

// The cell with another strategy, on the same machine.
cell with_strategy(const cell& setting, strategy_choice choice);
// The cell simulated on `stand_in`; a simulated cell is returned unchanged.
cell as_simulated_on(cell work, const machine& stand_in);

// The family of its strategy or, for a plan from a file, of its residences.
family family_of(const cell& work);
// Whether the result must equal the baseline's bit by bit; false: only up to rounding.
bool has_baseline_bits(const cell& work);

// Whether `a` has less memory than `b` of the same line: a higher ratio or a smaller budget.
bool is_tighter(const experiment& a, const experiment& b);

}  // namespace um
