// Kernels that access memory in a given pattern, for microbenchmarks. Asynchronous on `where.stream`; sizes
// are multiples of 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels.hpp"
#include "core/units.hpp"

namespace um::measure {

enum class access : std::uint8_t { read, write };

// Accesses every byte once, 16 at a time, with `blocks` blocks of 256 threads in a grid-stride loop. With 0
// there are as many blocks as the GPU holds.
void touch_all(kernels::launch_site where, std::byte* data, byte_count bytes, access kind, int blocks = 0);

enum class visit_order : std::uint8_t { ascending, shuffled };

// Accesses 4 bytes at every multiple of `stride`, each by its own thread. `shuffled` is a fixed pseudo-random
// order; the number of places must be a power of two.
void touch_strided(kernels::launch_site where, std::byte* data, byte_count bytes, byte_count stride,
                   access kind, visit_order order);

// Which bytes a kernel reads, and in which order.
enum class read_order : std::uint8_t {
  waves,               // a thread for every 16 bytes, more blocks than the GPU holds
  grid_stride,         // grid-stride loop with as many blocks as the GPU holds
  chunk_a_thread,      // the same, each thread through a contiguous chunk of its own
  random,              // like waves, but pages of 4 KiB in a pseudo-random order
  every_second_block,  // like waves, but only every second block of 2 MiB
  sparse_pages         // one thread per granule of 64 KiB reads 16 bytes
};

// `bytes`: a power of two of at least 4 MiB. times[g], if not null, receives the arrival time of the first
// bytes of granule g of 64 KiB, in nanoseconds of the GPU's clock; granules that are skipped keep their
// value.
void read_in_order(kernels::launch_site where, const std::byte* data, byte_count bytes, read_order order,
                   std::uint64_t* times);

// One thread reads 4 bytes at every multiple of `stride`, each read waiting for the one before; the data must
// be zeros. times[i], if not null, receives the duration of read i in nanoseconds of the GPU's clock.
void chase(kernels::launch_site where, const std::byte* data, byte_count bytes, byte_count stride,
           visit_order order, std::uint32_t* times);

// As chase(), but alternates between two pieces of memory: read 2i is of place i of the first, read 2i + 1 of
// place i of the second. `places` counts both.
void chase_in_turn(kernels::launch_site where, const std::byte* first, const std::byte* second,
                   std::int64_t places, byte_count stride, std::uint32_t* times);

// Copies by `blocks` blocks of 1024 threads.
void copy_by_kernel(kernels::launch_site where, const std::byte* from, std::byte* to, byte_count bytes,
                    int blocks);

// Launches a kernel that does nothing.
void launch_nothing(kernels::launch_site where);

}  // namespace um::measure
