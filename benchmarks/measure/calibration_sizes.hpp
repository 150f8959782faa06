// How much each measurement of a calibration moves: what takes it and what reads it agree on these.
#pragma once

#include "core/units.hpp"

namespace um::measure {

inline constexpr byte_count stream_bytes = 256 * MiB;  // of streaming accesses
inline constexpr byte_count link_bytes = 256 * MiB;
inline constexpr byte_count refilled_bytes = 64 * MiB;  // written page by page
inline constexpr byte_count touched_bytes = 128 * MiB;  // by the CPU, once in a block
inline constexpr int few_granules = 4,
                     many_granules =
                         16;  // of one block: half of it at most, so that nothing is brought along
inline constexpr int few_blocks = 4, many_blocks = 64;
inline constexpr int launches = 1000, copies = 256;
inline constexpr byte_count small_copy = 64 * KiB;
inline constexpr std::int64_t product_side = 8192;
inline constexpr byte_count granule = 64 * KiB, page = 4 * KiB;

}  // namespace um::measure
