// A plan runs in one arena each of device, managed and pinned memory.
#pragma once

#include <cstddef>
#include <span>

#include "backends/cuda/cuda_options.hpp"
#include "core/lower.hpp"
#include "um_allocators/arena.hpp"
#include "um_allocators/managed_range.hpp"

namespace um {

class plan_memory {
 public:
  // Allocates the arenas. Throws out_of_memory, and unsupported for a plan that leaves eviction to the driver
  // where the options do not allow that.
  plan_memory(const execution_plan& plan, const cuda_options& options);

  std::byte* at(address where) const { return base_of(where.where) + where.offset; }
  std::byte* on_device(byte_count offset) const { return device_.data() + offset; }
  std::byte* pinned(byte_count offset) const { return pinned_.data() + offset; }
  managed_range managed(const range& r) const { return {managed_.data() + r.offset, r.bytes}; }

  // Copies bytes to the host, starting `offset` bytes after `from`.
  void copy_to_host(address from, byte_count offset, std::span<std::byte> to) const;
  // Fills device and pinned memory with NaNs, so that a read of bytes that were never written shows.
  void fill_with_nans();

 private:
  std::byte* base_of(space where) const;

  // The ballast is device memory that nothing uses. It leaves managed memory the rest of the budget (mode
  // native).
  arena ballast_, device_, pinned_, managed_;
};

inline constexpr int nan_byte = 0xff;  // memory filled with this byte holds NaNs

// Copies a box between two places: by a copy engine or by a kernel, as the plan says.
void copy_box(const plan_memory& memory, const pitched_copy& c, cudaStream_t stream);

}  // namespace um
