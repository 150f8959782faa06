#include "backends/cuda/executor/iteration_trace.hpp"

#include <algorithm>

namespace um {
namespace {

void fill_timeline(const run_state& run, trace& t) {
  const auto since_start = [&](const cuda_event& e) {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, run.start.get(), e.get()));
    return std::max<nanoseconds>(static_cast<nanoseconds>(static_cast<double>(ms) * 1e6), 0);
  };
  for (std::uint32_t i = 0; i < run.plan.steps.size(); ++i) {
    const step& step = run.plan.steps[i];
    const span s{i, step.in_lane, since_start(run.step_works[i].begin_event),
                 since_start(run.step_works[i].end_event)};
    t.spans.push_back(s);
    t.memory_samples.push_back({s.end, step.resident_bytes});
  }
  std::ranges::stable_sort(t.memory_samples, {}, &memory_sample::time);
}

counters counters_of(const execution_plan& plan, const moved_bytes& moved) {
  counters c;
  c.copy_to_device_bytes = moved.copied_to_device;
  c.copy_to_host_bytes = moved.copied_to_host;
  if (moved.prefetched == 0) c.prefetch_to_device_bytes = 0;
  c.plan_evict_bytes = moved.evicted;
  if (plan.managed_arena_bytes > 0) return c;
  c.faults = 0;
  c.fault_batches = 0;
  if (std::ranges::find(plan.home, residence::host) == plan.home.end()) c.remote_bytes = 0;
  c.fault_to_device_bytes = 0;
  c.driver_evict_bytes = 0;
  c.evicted_blocks = 0;
  return c;
}

}  // namespace

trace trace_of(const run_state& run, std::chrono::nanoseconds duration, const moved_bytes& moved,
               bool timeline) {
  trace t;
  t.duration = duration.count();
  t.counts = counters_of(run.plan, moved);
  if (timeline) fill_timeline(run, t);
  return t;
}

}  // namespace um
