// What an iteration is known to have done.
#include <algorithm>
#include <utility>

#include "backends/cuda/executor.hpp"

namespace um {

executor::moved_bytes& executor::moved_bytes::operator+=(const moved_bytes& other) {
  to_device += other.to_device;
  to_host += other.to_host;
  prefetched += other.prefetched;
  evicted += other.evicted;
  return *this;
}

// What all lanes have counted since the last call; they are idle.
executor::moved_bytes executor::take_moved() {
  moved_bytes all;
  for (lane_work& l : lanes_) all += std::exchange(l.moved, {});
  return all;
}

trace executor::trace_of(std::chrono::nanoseconds duration, const moved_bytes& moved, bool timeline) const {
  trace t;
  t.duration = duration.count();
  fill_counters(t.moved, moved);
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

// Copies and evictions are counted where they are issued. A prefetch of managed memory may find some of it
// in place or nowhere yet, so what it moved goes unobserved here.
void executor::fill_counters(counters& to, const moved_bytes& moved) const {
  to.copy_to_device_bytes = moved.to_device;
  to.copy_to_host_bytes = moved.to_host;
  if (moved.prefetched == 0) to.prefetch_to_device_bytes = 0;
  to.plan_evict_bytes = moved.evicted;
  if (plan_.managed_arena_bytes > 0) return;  // faults and the driver's evictions go unobserved
  to.faults = 0;
  to.fault_batches = 0;
  if (std::ranges::find(plan_.home, residence::host) == plan_.home.end()) to.remote_bytes = 0;
  to.fault_to_device_bytes = 0;
  to.driver_evict_bytes = 0;
  to.evicted_blocks = 0;
}

}  // namespace um
