// In mode native a ballast holds a GPU's driver to a budget. It is an allocation without data, which takes
// the device memory that the budget does not leave to managed memory.
#pragma once

#include "core/lower.hpp"

namespace um {

// Bytes over the budget that the driver must evict by itself; 0 without a budget, or if the plan evicts.
byte_count bytes_evicted_by_driver(const execution_plan& plan);

// The size of the ballast, given the free bytes once the device arena exists. Managed memory then has exactly
// the bytes that the budget leaves, at every ratio. It is 0 for plans without managed memory, without a
// budget, or that evict themselves. Throws out_of_memory if less is free than the budget leaves.
byte_count ballast_bytes(const execution_plan& plan, byte_count free_bytes);

}  // namespace um
