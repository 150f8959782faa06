#include "backends/cuda/executor/lane_runner.hpp"

#include <barrier>
#include <exception>
#include <thread>

#include "backends/cuda/executor/iteration_trace.hpp"

namespace um {
namespace {

// The step's call blocks, or must come after its predecessors as the CPU sees them.
bool waits_on_host(const step& s) {
  if (std::holds_alternative<evict>(s.command)) return s.home == residence::managed;
  return std::holds_alternative<prefetch>(s.command) && !s.populate_or_discard.empty();
}

}  // namespace

// Helper threads pass the gate together with the caller, before and after every iteration, and once more to
// be told to stop. Nothing between the gates throws: failures are kept and thrown at the end.
void lane_runner::run(std::uint32_t first, std::uint32_t end, bool timeline, const watcher& watch,
                      std::vector<trace>& traces) {
  std::uint32_t iteration = first;
  bool stop = false;
  std::vector<std::function<void()>> helps;
  for (const lane l : {lane::to_device, lane::to_host}) {
    if (!run_.lane_of(l).steps.empty()) helps.emplace_back([&, l] { run_lane(l, iteration, timeline); });
  }
  if (run_.has_room_maker) helps.emplace_back([&] { room_.discard_for_iteration(); });
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
  if (run_.room_maker_failure) std::rethrow_exception(run_.room_maker_failure);
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
      const step_work& work = run_.step_works[i];
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

// Announces the step to the threads that wait for it, or to the discard thread, which announces it once the
// room is given up.
void lane_runner::announce_step(lane which, std::uint32_t index) {
  lane_state& mine = run_.lane_of(which);
  const step_work& work = run_.step_works[index];
  const bool hands_over = run_.has_room_maker && which == lane::to_host;
  if (!hands_over && !work.done_event) return;
  check(cudaEventRecord(hands_over ? work.copied_event.get() : work.done_event.get(), mine.stream));
  announce(hands_over ? mine.last_handed_over : mine.last_issued, static_cast<std::int32_t>(index));
}

// Returns false if another lane failed and the iteration is to be given up.
bool lane_runner::wait_for_others(const step& s, lane which) {
  lane_state& mine = run_.lane_of(which);
  for (std::size_t other = 0; other < lane_count; ++other) {
    const std::int32_t awaited = s.waits_for[other];
    if (awaited == no_step || static_cast<lane>(other) == which) continue;
    wait_until_issued(mine, static_cast<lane>(other), awaited);
    if (run_.has_failed) return false;
    const cudaEvent_t done = run_.step_works[static_cast<std::size_t>(awaited)].done_event.get();
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
  wait_for(issued, index);
  mine.is_in_call = true;
  mine.awaited_step = no_step;
}

}  // namespace um
