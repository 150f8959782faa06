// Copies over the link that leave the rest of the device to others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels.hpp"

namespace um::kernels {

// Between managed memory that lies on the device and pinned host memory, either way, by few blocks, no faster
// than asked for (0: as fast as they can). Both addresses are multiples of 16, and so much more than `bytes`
// is there that a multiple of 16 is copied.
void copy_over_link(launch_site where, const void* from, void* to, std::size_t bytes,
                    std::uint64_t most_bytes_per_s);

// The same without bulk copies and at no pace: what devices before compute capability 9.0 do, and every
// device can.
void copy_over_link_plainly(launch_site where, const void* from, void* to, std::size_t bytes);

}  // namespace um::kernels
