#include "backends/cuda/executor/plan_memory.hpp"

#include <cstring>

#include "backends/ballast.hpp"
#include "backends/cuda/kernels/pitched_copy.hpp"
#include "core/errors.hpp"
#include "um_allocators/check.hpp"

namespace um {

plan_memory::plan_memory(const execution_plan& plan, const cuda_options& options) {
  const byte_count excess = bytes_evicted_by_driver(plan);
  const bool native = options.allow_native_oversubscription;
  if (excess > 0 && !native) {
    throw unsupported("the plan leaves " + to_text(excess) +
                      " beyond the budget to the driver's own eviction, which can hang a GPU: allow native "
                      "oversubscription by name, or let the plan evict (mode capped)");
  }
  device_ = device_arena(plan.device_arena_bytes);
  pinned_ = pinned_arena(plan.pinned_arena_bytes);
  if (native) {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total));
    ballast_ = device_arena(ballast_bytes(plan, free));
  }
  const bool unlimited = ballast_.bytes() > 0;
  managed_ =
      managed_arena(plan.managed_arena_bytes, unlimited ? managed_limit::none : managed_limit::guarded);
}

std::byte* plan_memory::base_of(space where) const {
  switch (where) {
    case space::device:
      return device_.data();
    case space::managed:
      return managed_.data();
    case space::pinned:
      return pinned_.data();
  }
  return nullptr;
}

void plan_memory::copy_to_host(address from, byte_count offset, std::span<std::byte> to) const {
  check(cudaMemcpy(to.data(), at(from) + offset, to.size(), cudaMemcpyDefault));
}

void plan_memory::fill_with_nans() {
  if (device_.bytes() > 0) check(cudaMemset(device_.data(), nan_byte, device_.bytes()));
  if (pinned_.bytes() > 0) std::memset(pinned_.data(), nan_byte, pinned_.bytes());
}

void copy_box(const plan_memory& memory, const pitched_copy& c, cudaStream_t stream) {
  const auto copy = c.made_by == copier::kernel ? kernels::copy_box_by_kernel : kernels::copy_box_by_engine;
  copy(stream, memory.at(c.to), memory.at(c.from),
       {c.width, c.height, c.depth, c.from_pitch, c.from_slice, c.to_pitch, c.to_slice});
}

}  // namespace um
