// A memory plan with what it was made for, so that one machine can plan and another run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/planner.hpp"
#include "networks/catalogue.hpp"

namespace um {

// Who keeps memory within the budget, and where the run happens.
//   simulated  the simulator's driver evicts on demand
//   capped     the plan evicts at operator boundaries; no memory is ever oversubscribed
//   native     a real driver evicts on demand
enum class run_mode : std::uint8_t { simulated, capped, native };
std::string_view to_text(run_mode mode);
std::string_view to_text(pass p);

struct plan_file {
  network_spec network;  // knobs completed
  std::string strategy;
  knob_values strategy_knobs;
  std::optional<double> ratio;  // as asked for, if it was
  byte_count budget = 0;
  run_mode mode = run_mode::simulated;
  packer placed_by = packers::searched;
  memory_plan plan;
};

}  // namespace um
