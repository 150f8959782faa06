// The backend without a GPU has roofline times and a simulated driver and link. All its figures are
// simulated, and records say so.
#pragma once

#include <memory>

#include "backends/backend.hpp"

namespace um {

// execute() takes operator times from measure() of the same machine, leaves digest and loss empty
// (nothing is computed), and throws out_of_memory where the device arena exceeds the machine's
// memory, or the pinned arena its host's.
std::unique_ptr<backend> open_simulator(machine m);

}  // namespace um
