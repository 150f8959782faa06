// The sizes of the calibration's measurements, for the code that measures and the code that evaluates.
#pragma once

#include "core/units.hpp"

namespace um::measure {

inline constexpr byte_count stream_bytes = 256 * MiB;  // streaming accesses, prefetches of new data
inline constexpr byte_count sparse_bytes = 128 * MiB;  // touched in one place of every granule, or second one
inline constexpr int few_blocks = 64, many_blocks = 512;  // touched in one place each, then in another
inline constexpr int chased_blocks = 128, visited_blocks = 64,
                     idle_blocks = 16;   // one isolated fault in each
inline constexpr int small_blocks = 64;  // blocks, of each of which 64 KiB are prefetched
inline constexpr byte_count link_bytes = 256 * MiB;
inline constexpr byte_count refilled_bytes = 16 * MiB;    // written page by page
inline constexpr byte_count touched_bytes = 128 * MiB;    // by the CPU, once in a block
inline constexpr byte_count queued_call = managed_block;  // size of a prefetch that others follow at once
inline constexpr byte_count populated_bytes = 128 * MiB;  // on the host, by prefetches
// Both ways at once: what goes out ends before what comes in even at a fifth of its speed.
inline constexpr byte_count beside_in = GiB, beside_out = 64 * MiB;
inline constexpr byte_count beside_faults = 512 * MiB;  // to the host, and read by a kernel
inline constexpr byte_count evicted_at_once = 8 * MiB;  // in a call, as plans for an H200 do
inline constexpr int launches = 1000, copies = 256;
inline constexpr byte_count small_copy = 64 * KiB;
inline constexpr std::int64_t product_side = 8192;
inline constexpr byte_count granule = 64 * KiB, page = 4 * KiB;

}  // namespace um::measure
