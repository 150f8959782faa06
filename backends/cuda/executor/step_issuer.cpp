#include "backends/cuda/executor/step_issuer.hpp"

#include "backends/cuda/kernels/link_copy.hpp"
#include "core/compute.hpp"
#include "um_allocators/managed_range.hpp"

namespace um {

void step_issuer::issue(std::uint32_t index, cudaStream_t stream, std::uint32_t iteration) const {
  const step& s = run_.plan.steps[index];
  if (const kernel_call& call = run_.step_works[index].call) return call();
  if (!s.is_needed) return;
  if (s.home == residence::twinned && !std::holds_alternative<advise>(s.command)) {
    move_twin(s, stream);
  } else {
    moved_bytes& moved = run_.lane_of(s.in_lane).moved;
    for (const pitched_copy& c : s.copies) {
      copy_box(run_.memory, c, stream);
      (s.in_lane == lane::to_device ? moved.copied_to_device : moved.copied_to_host) += bytes_of(c);
    }
    if (is_managed(s.home)) move_managed(s, stream, iteration);
  }
  if (run_.poisons_released_memory) poison(s, stream);
}

void step_issuer::move_managed(const step& s, cudaStream_t stream, std::uint32_t iteration) const {
  moved_bytes& moved = run_.lane_of(s.in_lane).moved;
  for (const movement& m : s.movements) {
    const managed_range there = run_.memory.managed(m.device_range);
    std::visit(overloaded{[&](const prefetch&) {
                            prefetch_to_device(there, run_.cuda_session.device(), stream);
                            moved.prefetched += there.bytes;
                          },
                          [&](const evict&) { room_.evict(there, s, stream, moved); },
                          [](const discard&) {},  // the discard thread does it
                          [&](const advise& a) {
                            if (iteration == 0) advise_range(there, a.hint, run_.cuda_session.device());
                          },
                          [](const compute&) {}},
               s.command);
  }
}

// Moves a twin. To the host: copies; the discard thread discards afterwards. To the device: makes room, then
// copies.
void step_issuer::move_twin(const step& s, cudaStream_t stream) const {
  const bool in = std::holds_alternative<prefetch>(s.command);
  if (in) room_.populate(s);
  if (std::holds_alternative<discard>(s.command)) return;
  const kernels::launch_site site{stream, run_.cuda_session.compute().multiprocessors};
  moved_bytes& moved = run_.lane_of(s.in_lane).moved;
  for (const movement& m : s.movements) {
    std::byte* const here = run_.memory.managed(m.device_range).data;
    std::byte* const home = run_.memory.pinned(m.pinned_offset);
    kernels::copy_over_link(site, in ? home : here, in ? here : home, m.device_range.bytes,
                            s.copy_bytes_per_s);
    (in ? moved.copied_to_device : moved.copied_to_host) += m.device_range.bytes;
  }
}

// Overwrites what the step gave up, so that a later read of it computes with NaNs. It leaves alone what the
// driver evicts, which stays readable, and staged tensors, which others may still read during their copy
// home.
void step_issuer::poison(const step& s, cudaStream_t stream) const {
  if (s.in_lane != lane::to_host || !is_managed(s.home)) return;
  if (std::holds_alternative<evict>(s.command) && s.home == residence::managed) return;
  const auto fill = [&](const range& r) {
    check(cudaMemsetAsync(run_.memory.managed(r).data, nan_byte, r.bytes, stream));
  };
  for (const movement& m : s.movements) fill(m.device_range);
  for (const range& r : s.populate_or_discard) fill(r);
}

}  // namespace um
