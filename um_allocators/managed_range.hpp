// Calls of the CUDA runtime for ranges of managed memory. They changed between CUDA 12 and 13;
// managed_range.cpp hides the difference.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "core/memory_plan.hpp"
#include "core/units.hpp"

namespace um {

struct managed_range {
  std::byte* data = nullptr;
  byte_count bytes = 0;
};

// Throws unsupported unless the device pages managed memory on demand (concurrentManagedAccess);
// without it there is neither oversubscription nor prefetch.
void require_demand_paging(int device);

void advise_range(managed_range memory, advice hint, int device);
// Takes advice back. Memory that the advice moved stays where it is.
void withdraw_advice(managed_range memory, advice hint, int device);

void prefetch_to_device(managed_range memory, int device, cudaStream_t stream);

// Migrates to the CPU. Blocks the calling thread for the whole copy (seen with driver 580), so call it from
// a thread of its own.
void prefetch_to_host(managed_range memory, cudaStream_t stream);

// Declares the contents dead. Prefetch discarded memory before writing it again, otherwise every page faults
// separately. Throws unsupported before CUDA 13.
void discard_range(managed_range memory, cudaStream_t stream);

// One call for many ranges, and one call for discarding and prefetching to the device. They throw unsupported
// before CUDA 13.
void prefetch_batch_to_device(std::span<const managed_range> ranges, int device, cudaStream_t stream);
void prefetch_batch_to_host(std::span<const managed_range> ranges, cudaStream_t stream);
void discard_and_prefetch_to_device(managed_range memory, int device, cudaStream_t stream);

}  // namespace um
