// How long it takes by itself to give up managed memory, after a machine's figures.
#pragma once

#include "core/machine.hpp"
#include "core/memory_plan.hpp"

namespace um {

// By the driver, or by a copy to a twin and a discard.
nanoseconds time_to_evict(const machine& on, byte_count blocks, residence home);
nanoseconds time_to_discard(const machine& on, byte_count blocks);

}  // namespace um
