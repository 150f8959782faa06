// How mode native holds a GPU's driver to a budget: what the budget does not leave free for managed memory is
// taken by a ballast, which holds nothing.
#pragma once

#include "core/lower.hpp"

namespace um {

// Managed bytes that the driver would have to evict by itself; 0 where the plan evicts, or all fits.
byte_count left_to_driver(const execution_plan& plan);

// Of so many free bytes, once the device arena exists, those that a ballast has to take for managed memory to
// have what the budget leaves and no more: at every ratio, also where everything fits. 0 for plans that leave
// nothing to the driver's choice: without managed memory, without a budget, or evicting themselves. Throws
// out_of_memory if less is free than the budget leaves.
byte_count ballast_bytes(const execution_plan& plan, byte_count free_bytes);

}  // namespace um
