#include "backends/cuda/executor/room_maker.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "um_allocators/managed_range.hpp"

namespace um {

room_maker::room_maker(run_state& run)
    : run_(run), discard_stream_(make_stream()), populate_stream_(make_stream()) {}

void room_maker::discard_for_iteration() {
  lane_state& to_host = run_.lane_of(lane::to_host);
  try {
    check(cudaSetDevice(run_.cuda_session.device()));
    for (const std::uint32_t i : to_host.steps) {
      const auto index = static_cast<std::int32_t>(i);
      wait_until_reached(to_host.last_handed_over, index);
      if (run_.has_failed) break;
      const step_resources& work = run_.resources_of_steps[i];
      check(cudaEventSynchronize(work.copied_event.get()));
      run_.discard_is_in_call = true;
      discard_memory_of_step(run_.plan.steps[i]);
      if (work.done_event) {
        check(cudaEventRecord(work.done_event.get(), discard_stream_.get()));
        check(cudaStreamSynchronize(discard_stream_.get()));
        store_and_notify(to_host.last_issued, index);
      }
      run_.discard_is_in_call = false;
    }
  } catch (...) {
    run_.discard_failure = std::current_exception();
    run_.has_failed = true;
  }
  run_.discard_is_in_call = false;
  if (run_.has_failed) release_waiting_threads(to_host);
}

// Returns whether a thread other than that of the lane to the host is in a call, or about to be.
bool room_maker::other_threads_are_in_calls() const {
  if (run_.discard_is_in_call) return true;
  const std::int32_t issued = run_.lane_of(lane::to_host).last_issued;
  for (const lane l : {lane::compute, lane::to_device}) {
    const std::int32_t awaited = run_.lane_of(l).awaited_step;
    if (run_.lane_of(l).is_in_call || (awaited != no_step && awaited <= issued)) return true;
  }
  return false;
}

// Waits for calls of other threads no longer than the step says, since such a call may block for long, for
// example while the queue of a stream is full.
void room_maker::evict(managed_range memory, const step& s, cudaStream_t stream, moved_bytes& moved) const {
  const byte_count each = s.call_bytes == 0 ? memory.bytes : s.call_bytes;
  for (byte_count at = 0; at < memory.bytes; at += each) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(s.pause_ns);
    while (other_threads_are_in_calls() && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    const byte_count bytes = std::min(each, memory.bytes - at);
    prefetch_to_host({memory.data + at, bytes}, stream);
    moved.evicted += bytes;
  }
}

void room_maker::populate(const step& s) const {
  for (const range& r : s.populate_or_discard)
    prefetch_to_device(run_.memory.managed(r), run_.cuda_session.device(), populate_stream_.get());
  if (!s.populate_or_discard.empty()) check(cudaStreamSynchronize(populate_stream_.get()));
}

void room_maker::discard_memory_of_step(const step& s) const {
  if (!s.is_needed) return;
  const auto discard_one = [&](const range& r) {
    discard_range(run_.memory.managed(r), discard_stream_.get());
    check(cudaStreamSynchronize(discard_stream_.get()));
  };
  for (const range& r : s.populate_or_discard) discard_one(r);
  if (!std::holds_alternative<discard>(s.command) || !is_managed(s.home)) return;
  for (const managed_target& m : s.managed_targets) discard_one(m.device_range);
}

}  // namespace um
