// A memory plan with the setting that it was made for, so that one machine can plan and another run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/lower.hpp"
#include "core/planner.hpp"
#include "networks/catalogue.hpp"
#include "schedule/bounds/bounds.hpp"

namespace um {

// Whether plan or driver keeps memory within the budget, and where the run happens.
//
// simulated: the simulator's driver evicts on demand. capped: the plan evicts at operator boundaries; memory
// is never oversubscribed. native: a real driver evicts on demand.
enum class run_mode : std::uint8_t { simulated, capped, native };
template <>
inline constexpr std::array enum_names<run_mode>{"simulated"sv, "capped"sv, "native"sv};

// A network whose knobs and memory order are completed, and its graph.
struct built_network {
  network_spec spec;
  const network_family* family = nullptr;  // nullptr: the network comes from a file
  std::shared_ptr<const graph> network = {};
};

struct plan_file {
  built_network network;
  std::string strategy;
  knob_values strategy_knobs;
  std::optional<double> ratio;  // as requested; nothing if a budget was requested
  byte_count footprint = 0;     // on the machine that planned
  byte_count budget = 0;
  run_mode mode = run_mode::simulated;
  packer packing_algorithm = packers::searched;
  memory_plan plan;
};

// Maximum device memory in use: that of the plan or, if the driver evicts on demand, at most the budget.
byte_count peak_device_bytes_of(run_mode mode, const execution_plan& steps);

// A plan, its lowered steps, and bounds and estimates of its time.
struct planned_cell {
  plan_file file;
  execution_plan steps;
  time_bounds bounds;
  plan_bound bound;                // lower bound for plans of this kind
  std::vector<std::string> notes;  // notes of the planner
  nanoseconds planning_time = 0;
  std::optional<nanoseconds> expected_time;  // simulated time of an iteration; nothing for managed memory
};

}  // namespace um
