// What an iteration is known to have done.
#include <algorithm>

#include "backends/cuda/executor.hpp"

namespace um {

trace executor::trace_of(std::chrono::nanoseconds duration, bool timeline) const {
  trace t;
  t.duration = duration.count();
  fill_counters(t.moved);
  if (timeline) fill_timeline(t);
  return t;
}

void executor::fill_timeline(trace& t) const {
  const auto since_start = [&](const event& e) {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start_.get(), e.get()));
    return std::max<nanoseconds>(static_cast<nanoseconds>(static_cast<double>(ms) * 1e6), 0);
  };
  for (std::uint32_t i = 0; i < plan_.steps.size(); ++i) {
    const span s{i, plan_.steps[i].where, since_start(work_[i].begin), since_start(work_[i].end)};
    t.spans.push_back(s);
    t.resident.push_back({s.end, plan_.steps[i].resident_bytes});
  }
  std::stable_sort(t.resident.begin(), t.resident.end(),
                   [](const resident_sample& a, const resident_sample& b) { return a.at < b.at; });
}

// Copies and evictions are as the plan has them. A prefetch of managed memory may find some of it
// in place or nowhere yet, so what it moved goes unobserved here.
void executor::fill_counters(counters& moved) const {
  byte_count copied_in = 0, copied_out = 0, prefetched = 0, evicted = 0;
  for (const step& s : plan_.steps) {
    if (!s.needed) continue;
    byte_count bytes = 0;
    for (const movement& m : s.moves) bytes += m.device.bytes;
    for (const pitched_copy& c : s.copies) bytes += bytes_of(c);
    const bool managed = s.home == residence::managed;
    if (std::holds_alternative<prefetch>(s.what)) (managed ? prefetched : copied_in) += bytes;
    if (std::holds_alternative<evict>(s.what)) (managed ? evicted : copied_out) += bytes;
  }
  moved.copy_to_device_bytes = copied_in;
  moved.copy_to_host_bytes = copied_out;
  if (prefetched == 0) moved.prefetch_to_device_bytes = 0;
  moved.plan_evict_bytes = evicted;
  if (plan_.managed_arena_bytes > 0) return;  // faults and the driver's evictions go unobserved
  moved.faults = 0;
  moved.fault_batches = 0;
  if (std::ranges::find(plan_.home, residence::host) == plan_.home.end()) moved.remote_bytes = 0;
  moved.fault_to_device_bytes = 0;
  moved.driver_evict_bytes = 0;
  moved.evicted_blocks = 0;
}

}  // namespace um
