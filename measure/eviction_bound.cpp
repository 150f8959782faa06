// Measures bounds of the time to evict a block of managed memory: an allocation of device memory evicts
// managed data that no kernel uses. Managed memory never exceeds the free device memory. Prints one line of
// JSON.
//
//   um_eviction_bound [DEVICE]
//
// Allocates most of the free memory while it runs, so no other program should need the GPU. Only the
// allocation that evicts exceeds the memory that was free at the start.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "core/quantiles.hpp"
#include "core/units.hpp"
#include "um_allocators/check.hpp"
#include "um_allocators/managed_range.hpp"

namespace um {
namespace {

constexpr byte_count managed_bytes = 512 * MiB, displaced_bytes = 256 * MiB, spare_bytes = 320 * MiB;
constexpr int rounds = 9;

byte_count free_bytes() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return free;
}

// Returns the nanoseconds of an allocation, and frees it.
double allocation_time(byte_count bytes) {
  void* memory = nullptr;
  const auto begin = std::chrono::steady_clock::now();
  check(cudaMalloc(&memory, bytes));
  const auto end = std::chrono::steady_clock::now();
  check(cudaFree(memory));
  return std::chrono::duration<double, std::nano>(end - begin).count();
}

double copy_time_of_a_block(void* from) {
  void* host = nullptr;
  check(cudaMallocHost(&host, managed_block));
  std::vector<double> all;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    check(cudaMemcpy(host, from, managed_block, cudaMemcpyDeviceToHost));
    all.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
  }
  check(cudaFreeHost(host));
  return median_of(all);
}

int measure_eviction_bounds(int device) {
  check(cudaSetDevice(device));
  check(cudaFree(nullptr));
  const byte_count free = free_bytes();
  if (free < 4 * (managed_bytes + spare_bytes)) {
    fmt::print(stderr, "too little device memory is free: {}\n", to_text(free));
    return 1;
  }
  void *managed = nullptr, *ballast = nullptr;
  check(cudaMallocManaged(&managed, managed_bytes));
  check(cudaMemset(managed, 0, managed_bytes));
  check(cudaMalloc(&ballast, round_down(free - managed_bytes - spare_bytes, managed_block)));
  const double copying = copy_time_of_a_block(ballast);
  std::vector<double> with_room, without;
  for (int i = 0; i < rounds; ++i) {
    prefetch_to_device({static_cast<std::byte*>(managed), managed_bytes}, device, nullptr);
    check(cudaDeviceSynchronize());
    with_room.push_back(allocation_time(displaced_bytes));
    // Allocates the rest of the free memory, so that the next allocation must evict.
    void* rest = nullptr;
    check(cudaMalloc(&rest, round_down(free_bytes(), managed_block) - std::min(free_bytes(), 16 * MiB)));
    without.push_back(allocation_time(displaced_bytes));
    check(cudaFree(rest));
  }
  const double blocks = static_cast<double>(displaced_bytes / managed_block);
  const double each = (median_of(without) - median_of(with_room)) / blocks;
  fmt::print(
      "{{\"free_bytes\": {}, \"managed_bytes\": {}, \"allocated_bytes\": {}, \"with_room_ns\": {:.0f}, "
      "\"displacing_ns\": {:.0f}, \"of_a_block_ns\": {:.0f}, \"copy_of_a_block_ns\": {:.0f}, "
      "\"evict_ns_at_most\": {:.0f}, \"evict_ns_at_least\": {:.0f}}}\n",
      free, managed_bytes, displaced_bytes, median_of(with_room), median_of(without), each, copying, each,
      std::max(0.0, each - copying));
  check(cudaFree(ballast));
  check(cudaFree(managed));
  return 0;
}

}  // namespace
}  // namespace um

int main(int argc, char** argv) {
  return um::measure_eviction_bounds(argc > 1 ? std::atoi(argv[1]) : 0);
}
