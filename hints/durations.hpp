// Time to evict or discard managed memory with nothing else running, from a machine's figures.
#pragma once

#include "core/machine.hpp"
#include "core/memory_plan.hpp"

namespace um {

// Time to evict: by the driver or, for twinned memory, by a copy to the twin and a discard.
nanoseconds evict_time(const machine& m, byte_count blocks, residence home);
nanoseconds discard_time(const machine& m, byte_count blocks);

}  // namespace um
