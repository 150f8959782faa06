#include "backends/cuda/executor/run_state.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/cuda/executor/operator_calls.hpp"

namespace um {
namespace {

bool discards(const step& s) {
  return s.needed && s.where == lane::to_host &&
         (!s.room.empty() || (std::holds_alternative<discard>(s.what) && is_managed(s.home)));
}

}  // namespace

run_state::run_state(session& with, const graph& g, const execution_plan& to_run,
                     const std::vector<engine>& engines)
    : on(with),
      network(g),
      plan(to_run),
      memory(to_run, with.options()),
      to_device(make_stream(stream_priority::highest)),
      to_host(make_stream(stream_priority::highest)),
      work(to_run.steps.size()),
      keeps_room(std::ranges::any_of(to_run.steps, discards)) {
  lane_of(lane::compute).stream = on.compute().stream;
  lane_of(lane::to_device).stream = to_device.get();
  lane_of(lane::to_host).stream = to_host.get();
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const step& s = plan.steps[i];
    lane_of(s.where).steps.push_back(i);
    if (std::holds_alternative<compute>(s.what))
      work[i].call = operator_call(engines[i], s, memory, on.compute().stream);
  }
}

void run_state::make_events(bool timeline) {
  start = make_event(event_use::timing);
  for (const step& s : plan.steps) {
    for (const std::int32_t other : s.after) {
      if (other == no_step) continue;
      event& done = work[static_cast<std::size_t>(other)].done_event;
      if (!done) done = make_event(event_use::ordering);
    }
  }
  for (const std::uint32_t i : lane_of(lane::to_host).steps) {
    if (keeps_room) work[i].copied_event = make_event(event_use::ordering);
  }
  if (!timeline) return;
  for (step_work& w : work) {
    w.begin = make_event(event_use::timing);
    w.end = make_event(event_use::timing);
  }
}

moved_bytes run_state::take_moved() {
  moved_bytes all;
  for (lane_state& l : lanes) {
    const moved_bytes mine = std::exchange(l.moved, {});
    all.to_device += mine.to_device;
    all.to_host += mine.to_host;
    all.prefetched += mine.prefetched;
    all.evicted += mine.evicted;
  }
  return all;
}

void announce(std::atomic<std::int32_t>& last, std::int32_t step) {
  last.store(step, std::memory_order_release);
  last.notify_all();
}

void wait_for(const std::atomic<std::int32_t>& last, std::int32_t step) {
  for (std::int32_t now = last.load(std::memory_order_acquire); now < step;
       now = last.load(std::memory_order_acquire)) {
    last.wait(now, std::memory_order_acquire);
  }
}

void release_waiting_threads(lane_state& l) {
  announce(l.issued, std::numeric_limits<std::int32_t>::max());
  announce(l.handed_over, std::numeric_limits<std::int32_t>::max());
}

}  // namespace um
