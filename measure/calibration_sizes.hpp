// The sizes of the calibration's measurements, for the code that measures and the code that evaluates.
#pragma once

#include "core/units.hpp"

namespace um::measure {

inline constexpr byte_count stream_bytes = 256 * MiB;  // streaming accesses, prefetches of new data
inline constexpr byte_count sparse_bytes =
    128 * MiB;  // accessed at one place of every granule, or every second one
inline constexpr int few_blocks = 64,
                     many_blocks = 512;  // numbers of blocks that are accessed at one place, then at another
inline constexpr int block_chase_trial = 128, visited_blocks = 64,
                     isolated_fault_blocks = 16;  // numbers of blocks with one isolated fault each
inline constexpr int small_prefetch_count = 64;   // number of blocks of which 64 KiB each are prefetched
inline constexpr byte_count link_bytes = 256 * MiB;
inline constexpr byte_count refilled_bytes = 16 * MiB;              // written page by page
inline constexpr byte_count touched_bytes = 128 * MiB;              // accessed by the CPU once per block
inline constexpr byte_count queued_prefetch_bytes = managed_block;  // size of each prefetch in a queue
inline constexpr byte_count populated_bytes = 128 * MiB;            // populated on the host by prefetches
// Prefetched in both directions at once. The part to the host is so small that it ends first even at a fifth
// of its speed.
inline constexpr byte_count concurrent_in_bytes = GiB, concurrent_out_bytes = 64 * MiB;
inline constexpr byte_count concurrent_fault_bytes =
    512 * MiB;  // prefetched to the host while a kernel reads as much
inline constexpr byte_count eviction_call_bytes = 8 * MiB;  // per eviction call, as in plans for an H200
inline constexpr int launches = 1000, copies = 256;
inline constexpr byte_count small_copy = 64 * KiB;
inline constexpr std::int64_t product_side = 8192;
inline constexpr byte_count granule = 64 * KiB, page = 4 * KiB;

}  // namespace um::measure
