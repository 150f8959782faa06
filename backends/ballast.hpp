// Mode native holds the driver of a GPU to a budget by a ballast: an allocation without data that takes the
// device memory that the budget does not leave to managed memory.
#pragma once

#include "core/lower.hpp"

namespace um {

// Managed bytes that the driver must evict by itself; 0 if the plan evicts or everything fits.
byte_count bytes_evicted_by_driver(const execution_plan& plan);

// Size of the ballast, given the free bytes once the device arena exists: managed memory then has exactly
// the bytes that the budget leaves, at every ratio. 0 for plans without managed memory, without a budget,
// or that evict themselves. Throws out_of_memory if less is free than the budget leaves.
byte_count ballast_bytes(const execution_plan& plan, byte_count free_bytes);

}  // namespace um
