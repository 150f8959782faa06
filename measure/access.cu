#include <cuda_runtime.h>

#include <algorithm>

#include "measure/access.hpp"
#include "um_allocators/check.hpp"

namespace um::measure {
namespace {

constexpr int block_threads = 256;
constexpr int strided_threads = 32;  // few, so that also a touch of few places uses many multiprocessors
constexpr int copy_threads = 1024;

// Keeps the compiler from removing reads whose result nothing uses.
__device__ void keep_alive(int value) {
  if (value == 0x5eed1e55) __trap();
}

__device__ std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t thread_count() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

// The factor is odd, so that multiplication modulo a power of two visits every place once.
__device__ std::int64_t shuffled_index(std::int64_t i, std::int64_t places, bool shuffled) {
  return shuffled ? (i * 0x9e3779b1LL + 7) & (places - 1) : i;
}

__global__ void read_all(const int4* data, std::int64_t count) {
  int sum = 0;
#pragma unroll 4
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const int4 v = data[i];
    sum += (v.x ^ v.y) & (v.z | v.w | 1);
  }
  keep_alive(sum);
}

__global__ void write_all(int4* data, std::int64_t count) {
  const int4 value = make_int4(0, 0, 0, 0);
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) data[i] = value;
}

__global__ void read_strided(const std::byte* data, std::int64_t places, std::int64_t stride, bool shuffled) {
  const std::int64_t i = thread_index();
  if (i < places)
    keep_alive(*reinterpret_cast<const int*>(data + shuffled_index(i, places, shuffled) * stride));
}

__global__ void write_strided(std::byte* data, std::int64_t places, std::int64_t stride, bool shuffled) {
  const std::int64_t i = thread_index();
  if (i < places) *reinterpret_cast<int*>(data + shuffled_index(i, places, shuffled) * stride) = 0;
}

__device__ std::uint64_t now() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time)::"memory");
  return time;
}

// Reads one place and returns whether it holds zero. A caller that branches on the result waits for the read.
__device__ bool read_zero(const std::byte* at, std::uint32_t* time) {
  const std::uint64_t begin = now();
  if (*reinterpret_cast<const volatile int*>(at) != 0) return false;
  if (time != nullptr) *time = static_cast<std::uint32_t>(now() - begin);
  return true;
}

__global__ void chase_places(const std::byte* data, std::int64_t places, std::int64_t stride, bool shuffled,
                             std::uint32_t* times) {
  for (std::int64_t i = 0; i < places; ++i) {
    std::uint32_t* const time = times != nullptr ? times + i : nullptr;
    if (!read_zero(data + shuffled_index(i, places, shuffled) * stride, time)) return;
  }
}

__global__ void chase_places_in_turn(const std::byte* first, const std::byte* second, std::int64_t places,
                                     std::int64_t stride, std::uint32_t* times) {
  for (std::int64_t i = 0; i < places; ++i) {
    if (!read_zero((i % 2 == 0 ? first : second) + i / 2 * stride, times + i)) return;
  }
}

constexpr std::int64_t vectors_of_page = 4096 / 16, vectors_of_granule = 65536 / 16;
constexpr std::int64_t vectors_of_block = 32 * vectors_of_granule;

// Reads 16 bytes and stores their time of arrival at the start of a granule.
__device__ int read_and_store_time(const int4* data, std::int64_t i, std::uint64_t* times) {
  const int4 v = data[i];
  const int read = (v.x ^ v.y) & (v.z | v.w | 1);
  if (times != nullptr && i % vectors_of_granule == 0 && read != 0x5eed1e55) {
    times[i / vectors_of_granule] = now();
  }
  return read;
}

// Each thread reads one vector of 16 bytes. With `step` 2 every second block is skipped.
__global__ void read_in_waves(const int4* data, std::int64_t count, std::int64_t step, bool shuffled,
                              std::uint64_t* times) {
  const std::int64_t i = thread_index();
  if (i >= count / step) return;
  if (shuffled) {
    const std::int64_t page = shuffled_index(i / vectors_of_page, count / vectors_of_page, true);
    keep_alive(read_and_store_time(data, page * vectors_of_page + i % vectors_of_page, times));
  } else {
    keep_alive(read_and_store_time(
        data, i / vectors_of_block * step * vectors_of_block + i % vectors_of_block, times));
  }
}

__global__ void read_grid_stride(const int4* data, std::int64_t count, std::uint64_t* times) {
  int sum = 0;
  for (std::int64_t i = thread_index(); i < count; i += thread_count())
    sum += read_and_store_time(data, i, times);
  keep_alive(sum);
}

__global__ void read_chunks(const int4* data, std::int64_t count, std::uint64_t* times) {
  const std::int64_t begin = count * thread_index() / thread_count();
  const std::int64_t end = count * (thread_index() + 1) / thread_count();
  int sum = 0;
  for (std::int64_t i = begin; i < end; ++i) sum += read_and_store_time(data, i, times);
  keep_alive(sum);
}

__global__ void read_granules(const int4* data, std::int64_t granules, std::uint64_t* times) {
  const std::int64_t i = thread_index();
  if (i < granules) keep_alive(read_and_store_time(data, i * vectors_of_granule, times));
}

__global__ void copy_all(const int4* from, int4* to, std::int64_t count) {
#pragma unroll 4
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) to[i] = from[i];
}

__global__ void nothing() {}

unsigned blocks_for_strided_touch(std::int64_t items) {
  return static_cast<unsigned>((items + strided_threads - 1) / strided_threads);
}

}  // namespace

void touch_all(kernels::launch_site where, std::byte* data, byte_count bytes, access kind, int blocks) {
  const auto count = static_cast<std::int64_t>(bytes / sizeof(int4));
  const auto all = static_cast<unsigned>(blocks > 0 ? blocks : where.multiprocessors * 8);
  auto* const at = reinterpret_cast<int4*>(data);
  if (kind == access::read) {
    read_all<<<all, block_threads, 0, where.stream>>>(at, count);
  } else {
    write_all<<<all, block_threads, 0, where.stream>>>(at, count);
  }
  check(cudaGetLastError());
}

void touch_strided(kernels::launch_site where, std::byte* data, byte_count bytes, byte_count stride,
                   access kind, visit_order order) {
  const auto places = static_cast<std::int64_t>(bytes / stride), step = static_cast<std::int64_t>(stride);
  const bool shuffled = order == visit_order::shuffled;
  if (kind == access::read) {
    read_strided<<<blocks_for_strided_touch(places), strided_threads, 0, where.stream>>>(data, places, step,
                                                                                         shuffled);
  } else {
    write_strided<<<blocks_for_strided_touch(places), strided_threads, 0, where.stream>>>(data, places, step,
                                                                                          shuffled);
  }
  check(cudaGetLastError());
}

void read_in_order(kernels::launch_site where, const std::byte* data, byte_count bytes, read_order order,
                   std::uint64_t* times) {
  const auto* const from = reinterpret_cast<const int4*>(data);
  const auto count = static_cast<std::int64_t>(bytes / sizeof(int4));
  const auto resident = static_cast<unsigned>(where.multiprocessors * 8);
  const std::int64_t step = order == read_order::every_second_block ? 2 : 1;
  switch (order) {
    case read_order::waves:
    case read_order::random:
    case read_order::every_second_block:
      read_in_waves<<<static_cast<unsigned>(count / step / block_threads), block_threads, 0, where.stream>>>(
          from, count, step, order == read_order::random, times);
      break;
    case read_order::grid_stride:
      read_grid_stride<<<resident, block_threads, 0, where.stream>>>(from, count, times);
      break;
    case read_order::chunk_a_thread:
      read_chunks<<<resident, block_threads, 0, where.stream>>>(from, count, times);
      break;
    case read_order::sparse_pages:
      read_granules<<<blocks_for_strided_touch(count / vectors_of_granule), strided_threads, 0,
                      where.stream>>>(from, count / vectors_of_granule, times);
      break;
  }
  check(cudaGetLastError());
}

void chase(kernels::launch_site where, const std::byte* data, byte_count bytes, byte_count stride,
           visit_order order, std::uint32_t* times) {
  chase_places<<<1, 1, 0, where.stream>>>(data, static_cast<std::int64_t>(bytes / stride),
                                          static_cast<std::int64_t>(stride), order == visit_order::shuffled,
                                          times);
  check(cudaGetLastError());
}

void chase_in_turn(kernels::launch_site where, const std::byte* first, const std::byte* second,
                   std::int64_t places, byte_count stride, std::uint32_t* times) {
  chase_places_in_turn<<<1, 1, 0, where.stream>>>(first, second, places, static_cast<std::int64_t>(stride),
                                                  times);
  check(cudaGetLastError());
}

void copy_by_kernel(kernels::launch_site where, const std::byte* from, std::byte* to, byte_count bytes,
                    int blocks) {
  copy_all<<<static_cast<unsigned>(blocks), copy_threads, 0, where.stream>>>(
      reinterpret_cast<const int4*>(from), reinterpret_cast<int4*>(to),
      static_cast<std::int64_t>(bytes / sizeof(int4)));
  check(cudaGetLastError());
}

void launch_nothing(kernels::launch_site where) {
  nothing<<<1, 1, 0, where.stream>>>();
  check(cudaGetLastError());
}

}  // namespace um::measure
