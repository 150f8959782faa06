// Copies over the link that leave the rest of the device to other work.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels.hpp"

namespace um::kernels {

// Copies between device-resident managed memory and pinned host memory, in either direction, by few blocks,
// no faster than asked for (0: no limit). Both addresses are multiples of 16, and `bytes` is rounded up to
// a multiple of 16, which must exist on both sides.
void copy_over_link(launch_site where, const void* from, void* to, std::size_t bytes,
                    std::uint64_t most_bytes_per_s);

// The same without bulk copies and without a rate limit: for devices before compute capability 9.0.
void copy_over_link_plainly(launch_site where, const void* from, void* to, std::size_t bytes);

}  // namespace um::kernels
