#include "backends/cuda/executor/run_state.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/cuda/executor/operator_calls.hpp"

namespace um {
namespace {

bool discards(const step& s) {
  return s.is_needed && s.in_lane == lane::to_host &&
         (!s.populate_or_discard.empty() ||
          (std::holds_alternative<discard>(s.command) && is_managed(s.home)));
}

}  // namespace

run_state::run_state(session& with, const graph& g, const execution_plan& to_run,
                     const std::vector<engine>& engines)
    : cuda_session(with),
      network(g),
      plan(to_run),
      memory(to_run, with.options()),
      to_device_stream(make_stream(stream_priority::highest)),
      to_host_stream(make_stream(stream_priority::highest)),
      resources_of_steps(to_run.steps.size()),
      has_discard_thread(std::ranges::any_of(to_run.steps, discards)) {
  lane_of(lane::compute).stream = cuda_session.compute().stream;
  lane_of(lane::to_device).stream = to_device_stream.get();
  lane_of(lane::to_host).stream = to_host_stream.get();
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const step& s = plan.steps[i];
    lane_of(s.in_lane).steps.push_back(i);
    if (std::holds_alternative<compute>(s.command))
      resources_of_steps[i].call = operator_call(engines[i], s, memory, cuda_session.compute().stream);
  }
}

void run_state::make_events(bool timeline) {
  start = make_event(event_use::timing);
  for (const step& s : plan.steps) {
    for (const std::int32_t other : s.waits_for) {
      if (other == no_step) continue;
      cuda_event& done = resources_of_steps[static_cast<std::size_t>(other)].done_event;
      if (!done) done = make_event(event_use::ordering);
    }
  }
  for (const std::uint32_t i : lane_of(lane::to_host).steps) {
    if (has_discard_thread) resources_of_steps[i].copied_event = make_event(event_use::ordering);
  }
  if (!timeline) return;
  for (step_resources& w : resources_of_steps) {
    w.begin_event = make_event(event_use::timing);
    w.end_event = make_event(event_use::timing);
  }
}

moved_bytes run_state::take_moved_bytes() {
  moved_bytes all;
  for (lane_state& l : lane_states) {
    const moved_bytes mine = std::exchange(l.moved, {});
    all.copied_to_device += mine.copied_to_device;
    all.copied_to_host += mine.copied_to_host;
    all.prefetched += mine.prefetched;
    all.evicted += mine.evicted;
  }
  return all;
}

void store_and_notify(std::atomic<std::int32_t>& last, std::int32_t step) {
  last.store(step, std::memory_order_release);
  last.notify_all();
}

void wait_until_reached(const std::atomic<std::int32_t>& last, std::int32_t step) {
  for (std::int32_t now = last.load(std::memory_order_acquire); now < step;
       now = last.load(std::memory_order_acquire)) {
    last.wait(now, std::memory_order_acquire);
  }
}

void release_waiting_threads(lane_state& l) {
  store_and_notify(l.last_issued, std::numeric_limits<std::int32_t>::max());
  store_and_notify(l.last_handed_over, std::numeric_limits<std::int32_t>::max());
}

}  // namespace um
