// Kernels that touch memory in a given pattern: what microbenchmarks make the GPU do. Asynchronous on
// `where.stream`; sizes are multiples of 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels.hpp"
#include "core/units.hpp"

namespace um::measure {

enum class access : std::uint8_t { read, write };

// Every byte once, 16 at a time, by `blocks` blocks of 256 threads side by side; 0: as many as the
// GPU holds.
void touch_all(kernels::launch_site where, std::byte* data, byte_count bytes, access how, int blocks = 0);

enum class visit_order : std::uint8_t { ascending, shuffled };

// 4 bytes at every multiple of `stride`, each by a thread of its own. `shuffled` goes through a power of
// two of places in a fixed order without a pattern.
void touch_strided(kernels::launch_site where, std::byte* data, byte_count bytes, byte_count stride,
                   access how, visit_order order);

// The order in which a kernel reads every byte, or the bytes that the value names.
enum class read_order : std::uint8_t {
  waves,           // a thread for every 16 bytes, more blocks than the GPU holds
  grid_stride,     // as many blocks as the GPU holds, side by side
  chunk_a_thread,  // the same, each thread 16 bytes after 16 bytes of a chunk of its own
  random,          // as waves, pages of 4 KiB in an order without a pattern
  block_strided,   // as waves, of every second block of 2 MiB
  sparse_pages     // a thread for every granule of 64 KiB, which reads 16 bytes
};

// `bytes` are a power of two of at least 4 MiB. times[g], if not null, becomes when the first bytes of
// granule g of 64 KiB had arrived, in nanoseconds by the GPU's clock; those of granules that are left out
// stay.
void read_in_order(kernels::launch_site where, const std::byte* data, byte_count bytes, read_order how,
                   std::uint64_t* times);

// One thread reads 4 bytes at every multiple of `stride`, each read waiting for the one before; what it
// reads must be zeros. times[i], if not null, becomes the nanoseconds of read i by the GPU's clock.
void chase(kernels::launch_site where, const std::byte* data, byte_count bytes, byte_count stride,
           visit_order order, std::uint32_t* times);

// The same through two pieces of memory in turn: place i of the first is read 2i of the chain, place i of
// the second read 2i + 1. `places` counts both.
void chase_in_turn(kernels::launch_site where, const std::byte* first, const std::byte* second,
                   std::int64_t places, byte_count stride, std::uint32_t* times);

// Copies by `blocks` blocks of 1024 threads.
void copy_by_kernel(kernels::launch_site where, const std::byte* from, std::byte* to, byte_count bytes,
                    int blocks);

// Does nothing on the GPU.
void launch_nothing(kernels::launch_site where);

}  // namespace um::measure
