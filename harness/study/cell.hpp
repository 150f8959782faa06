// A cell: an experiment whose names are looked up, once. Whatever runs, records or compares it goes by what
// stands here and looks up nothing again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/graph.hpp"
#include "core/machine.hpp"
#include "harness/study/experiment.hpp"
#include "harness/study/plan_file.hpp"
#include "harness/study/strategies.hpp"

namespace um {

// Completes the network's knobs and memory order and builds it. Throws input_error for a network or a size
// that cannot be.
built_network built(network_spec spec);

struct cell {
  experiment what;  // completed: knobs, mode, memory order and workspace cap as they are meant
  built_network network;
  strategy_choice how;  // the strategy; nullptr: the plan comes from a file
  backend_name where;
  std::string key;   // identifies it in a file: every field that changes what is measured
  std::string line;  // the key without ratio or budget: cells of one line differ in nothing else

  // What else its process needs to know, so that it reads no file.
  std::optional<machine> on = {};  // simulated: the machine; on a GPU: the machine whose figures planners use
  std::optional<plan_file> plan = {};
  bool times_only = false;  // leave out what runs beside the timed iterations to observe and to count
  std::string values = {};  // folder for the tensors that survive (execution_request::values); "": none
};

// Fills in what is not given and finds what is named. With a plan the experiment's strategy is the plan's,
// named "plan:...". Throws input_error for an unknown name or knob, a value out of range, a mode that the
// backend does not have, both a ratio and a budget.
cell completed(experiment e, std::optional<plan_file> plan = {});
// The same where network and strategy are known already.
cell completed(experiment e, built_network network, strategy_choice how);

// The cell with another strategy, on the same machine.
cell with_strategy(const cell& setting, strategy_choice how);
// The cell as it is simulated on `stand_in`; a simulated one stays as it is.
cell simulated_on(cell work, const machine& stand_in);

// Its strategy's; of a plan from a file, by where its tensors live.
family family_of(const cell& work);
// Whether the result has the bits of the baseline's, as far as is known; false: equal to rounding only.
bool same_bits(const cell& work);

// Whether `a` asks for less memory than `b` of the same line: a higher ratio, a smaller budget.
bool is_tighter(const experiment& a, const experiment& b);

}  // namespace um
