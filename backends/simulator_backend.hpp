// A backend without a GPU, with roofline times and a simulated driver and link. Records mark its figures as
// simulated.
#pragma once

#include <memory>

#include "backends/backend.hpp"

namespace um {

// execute() uses the operator times of measure_operators(), leaves digest and loss empty (nothing is
// computed), and throws out_of_memory where the device arena exceeds the machine's memory, or the pinned
// arena its host's.
std::unique_ptr<backend> open_simulator(machine m);

}  // namespace um
