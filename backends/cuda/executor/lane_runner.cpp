#include "backends/cuda/executor/lane_runner.hpp"

#include <algorithm>
#include <barrier>
#include <exception>
#include <thread>

#include "backends/cuda/kernels/link_copy.hpp"
#include "core/memory_plan.hpp"
#include "um_allocators/managed_range.hpp"

namespace um {
namespace {

// Returns whether the step's call blocks, or may be made only after its predecessors have completed.
bool waits_on_host(const step& s) {
  if (std::holds_alternative<evict>(s.command)) return s.home == residence::managed;
  return std::holds_alternative<prefetch>(s.command) && !s.populate_or_discard.empty();
}

void fill_timeline(const run_state& run, trace& t) {
  const auto since_start = [&](const cuda_event& e) {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, run.start.get(), e.get()));
    return std::max<nanoseconds>(static_cast<nanoseconds>(static_cast<double>(ms) * 1e6), 0);
  };
  for (std::uint32_t i = 0; i < run.plan.steps.size(); ++i) {
    const step& step = run.plan.steps[i];
    const span s{i, step.in_lane, since_start(run.resources_of_steps[i].begin_event),
                 since_start(run.resources_of_steps[i].end_event)};
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

void step_issuer::issue(std::uint32_t index, cudaStream_t stream, std::uint32_t iteration) const {
  const step& s = run_.plan.steps[index];
  if (const kernel_call& call = run_.resources_of_steps[index].call) return call();
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
  if (run_.poisons_released_memory) poison_memory_of_step(s, stream);
}

void step_issuer::move_managed(const step& s, cudaStream_t stream, std::uint32_t iteration) const {
  moved_bytes& moved = run_.lane_of(s.in_lane).moved;
  for (const managed_target& m : s.managed_targets) {
    const managed_range there = run_.memory.managed(m.device_range);
    std::visit(overloaded{[&](const prefetch&) {
                            prefetch_to_device(there, run_.cuda_session.device(), stream);
                            moved.prefetched += there.bytes;
                          },
                          [&](const evict&) { room_.evict(there, s, stream, moved); },
                          [](const discard&) {},  // the discard thread discards
                          [&](const advise& a) {
                            if (iteration == 0) advise_range(there, a.hint, run_.cuda_session.device());
                          },
                          [](const compute&) {}},
               s.command);
  }
}

// Copies a twin to the host, after which the discard thread discards, or makes room for it and copies it to
// the device.
void step_issuer::move_twin(const step& s, cudaStream_t stream) const {
  const bool in = std::holds_alternative<prefetch>(s.command);
  if (in) room_.populate(s);
  if (std::holds_alternative<discard>(s.command)) return;
  const kernels::launch_site site{stream, run_.cuda_session.compute().multiprocessors};
  moved_bytes& moved = run_.lane_of(s.in_lane).moved;
  for (const managed_target& m : s.managed_targets) {
    std::byte* const here = run_.memory.managed(m.device_range).data;
    std::byte* const home = run_.memory.pinned(m.pinned_offset);
    kernels::copy_over_link(site, in ? home : here, in ? here : home, m.device_range.bytes,
                            s.copy_bytes_per_s);
    (in ? moved.copied_to_device : moved.copied_to_host) += m.device_range.bytes;
  }
}

// Overwrites the device memory that the step released with NaNs, so that a later read of it shows. Does not
// overwrite memory that the driver evicts, which stays readable, nor staged tensors, which other steps may
// read while they are copied to the host.
void step_issuer::poison_memory_of_step(const step& s, cudaStream_t stream) const {
  if (s.in_lane != lane::to_host || !is_managed(s.home)) return;
  if (std::holds_alternative<evict>(s.command) && s.home == residence::managed) return;
  const auto fill = [&](const range& r) {
    check(cudaMemsetAsync(run_.memory.managed(r).data, nan_byte, r.bytes, stream));
  };
  for (const managed_target& m : s.managed_targets) fill(m.device_range);
  for (const range& r : s.populate_or_discard) fill(r);
}

// Helper threads pass the barrier together with the caller before and after every iteration, and once more to
// stop. Nothing between two barriers throws: exceptions are stored and thrown at the end.
void lane_runner::run(std::uint32_t first, std::uint32_t end, bool timeline, const watcher& watch,
                      std::vector<trace>& traces) {
  std::uint32_t iteration = first;
  bool stop = false;
  std::vector<std::function<void()>> helps;
  for (const lane l : {lane::to_device, lane::to_host}) {
    if (!run_.lane_of(l).steps.empty()) helps.emplace_back([&, l] { run_lane(l, iteration, timeline); });
  }
  if (run_.has_discard_thread) helps.emplace_back([&] { room_.discard_for_iteration(); });
  std::barrier<> gate(static_cast<std::ptrdiff_t>(helps.size()) + 1);
  std::vector<std::jthread> threads;
  for (const std::function<void()>& help : helps) {
    threads.emplace_back([&] {
      for (gate.arrive_and_wait(); !stop; gate.arrive_and_wait()) {
        help();
        gate.arrive_and_wait();
      }
    });
  }
  for (; iteration < end && !run_.has_failed; ++iteration) {
    for (lane_state& l : run_.lane_states) l.last_issued = l.last_handed_over = no_step;
    const auto began = std::chrono::steady_clock::now();
    gate.arrive_and_wait();
    run_lane(lane::compute, iteration, timeline);
    gate.arrive_and_wait();
    const auto ended = std::chrono::steady_clock::now();
    if (!run_.has_failed) append_trace(traces, ended - began, timeline, watch, iteration + 1);
  }
  stop = true;
  gate.arrive_and_wait();
  threads.clear();
  for (const lane_state& l : run_.lane_states) {
    if (l.failure) std::rethrow_exception(l.failure);
  }
  if (run_.discard_failure) std::rethrow_exception(run_.discard_failure);
}

void lane_runner::append_trace(std::vector<trace>& traces, std::chrono::nanoseconds duration, bool timeline,
                               const watcher& watch, std::uint32_t done) {
  try {
    traces.push_back(trace_of(run_, duration, run_.take_moved_bytes(), timeline));
    if (watch) watch(done);
  } catch (...) {
    run_.lane_of(lane::compute).failure = std::current_exception();
    run_.has_failed = true;
  }
}

void lane_runner::run_lane(lane which, std::uint32_t iteration, bool timeline) {
  lane_state& mine = run_.lane_of(which);
  try {
    check(cudaSetDevice(run_.cuda_session.device()));
    mine.is_in_call = true;
    if (timeline && which == lane::compute) check(cudaEventRecord(run_.start.get(), mine.stream));
    for (const std::uint32_t i : mine.steps) {
      const step_resources& work = run_.resources_of_steps[i];
      if (!wait_for_others(run_.plan.steps[i], which)) break;
      if (timeline) check(cudaEventRecord(work.begin_event.get(), mine.stream));
      steps_.issue(i, mine.stream, iteration);
      if (timeline) check(cudaEventRecord(work.end_event.get(), mine.stream));
      announce_step(which, i);
    }
    mine.is_in_call = false;
    check(cudaStreamSynchronize(mine.stream));
  } catch (...) {
    mine.failure = std::current_exception();
    run_.has_failed = true;
  }
  mine.is_in_call = false;
  if (run_.has_failed) release_waiting_threads(mine);
}

// Announces the step to the threads that wait for it. If there is a discard thread, a step of the lane to the
// host is handed to that thread, which announces it after it has discarded.
void lane_runner::announce_step(lane which, std::uint32_t index) {
  lane_state& mine = run_.lane_of(which);
  const step_resources& work = run_.resources_of_steps[index];
  const bool hands_over = run_.has_discard_thread && which == lane::to_host;
  if (!hands_over && !work.done_event) return;
  check(cudaEventRecord(hands_over ? work.copied_event.get() : work.done_event.get(), mine.stream));
  store_and_notify(hands_over ? mine.last_handed_over : mine.last_issued, static_cast<std::int32_t>(index));
}

// Returns false if another lane failed, so that the iteration must be abandoned.
bool lane_runner::wait_for_others(const step& s, lane which) {
  lane_state& mine = run_.lane_of(which);
  for (std::size_t other = 0; other < lane_count; ++other) {
    const std::int32_t awaited = s.waits_for[other];
    if (awaited == no_step || static_cast<lane>(other) == which) continue;
    wait_until_issued(mine, static_cast<lane>(other), awaited);
    if (run_.has_failed) return false;
    const cudaEvent_t done = run_.resources_of_steps[static_cast<std::size_t>(awaited)].done_event.get();
    if (waits_on_host(s)) {
      mine.is_in_call = false;
      check(cudaEventSynchronize(done));
      mine.is_in_call = true;
    } else {
      check(cudaStreamWaitEvent(mine.stream, done));
    }
  }
  return true;
}

void lane_runner::wait_until_issued(lane_state& mine, lane other, std::int32_t index) {
  const std::atomic<std::int32_t>& issued = run_.lane_of(other).last_issued;
  if (issued.load(std::memory_order_acquire) >= index) return;
  if (other == lane::to_host) mine.awaited_step = index;
  mine.is_in_call = false;
  wait_until_reached(issued, index);
  mine.is_in_call = true;
  mine.awaited_step = no_step;
}

trace trace_of(const run_state& run, std::chrono::nanoseconds duration, const moved_bytes& moved,
               bool timeline) {
  trace t;
  t.duration = duration.count();
  t.counts = counters_of(run.plan, moved);
  if (timeline) fill_timeline(run, t);
  return t;
}

}  // namespace um
