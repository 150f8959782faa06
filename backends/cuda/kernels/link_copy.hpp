// Copies over the link that leave the rest of the device to other work.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels.hpp"

namespace um::kernels {

// Copies between device-resident managed memory and pinned memory, either way, with few blocks, at no more
// than `max_bytes_per_s` (0: no limit). Both addresses are multiples of 16. `bytes` is rounded up to a
// multiple of 16, which must exist on both sides.
void copy_over_link(launch_site where, const void* from, void* to, std::size_t bytes,
                    std::uint64_t max_bytes_per_s);

// Copies without bulk copies and without a limit of the rate, as devices before compute capability 9.0 do.
void copy_over_link_by_loads(launch_site where, const void* from, void* to, std::size_t bytes);

}  // namespace um::kernels
