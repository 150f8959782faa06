// Issues the iterations of a plan step by step, each lane from a thread of its own.
//
// The calling thread is the compute lane's. The lanes to the device and to the host have threads because some
// of their calls block: a managed eviction is a prefetch to the CPU, which returns when the copy has ended. A
// step that waits for a step of another lane
// 1. waits on the host until that step has been issued and its event recorded, since a stream does not wait
// for an event that was never recorded;
// 2. makes its stream wait for the event or, if it blocks itself, waits on the host.
// Steps wait only for steps before them in the list, so the lanes cannot wait for each other in a circle. All
// lanes are idle between iterations.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "backends/cuda/executor/room_maker.hpp"
#include "backends/cuda/executor/run_state.hpp"
#include "core/trace.hpp"

namespace um {

// Puts single steps of a plan on a stream.

class step_issuer {
 public:
  step_issuer(run_state& run, const room_maker& room) : run_(run), room_(room) {}

  // Called by the thread of the step's lane, or by the caller while no other thread exists. Counts what it
  // moves in the lane's state. Blocks where room_maker does. Advice is given in iteration 0 only: it stays
  // in force.
  void issue(std::uint32_t index, cudaStream_t stream, std::uint32_t iteration) const;

 private:
  void move_managed(const step& s, cudaStream_t stream, std::uint32_t iteration) const;
  void move_twin(const step& s, cudaStream_t stream) const;
  void poison_memory_of_step(const step& s, cudaStream_t stream) const;

  run_state& run_;
  const room_maker& room_;
};

class lane_runner {
 public:
  using watcher = std::function<void(std::uint32_t done)>;

  lane_runner(run_state& run, room_maker& room, const step_issuer& steps)
      : run_(run), room_(room), steps_(steps) {}

  // Runs iterations [first, end), appends a trace of each, timed by the host's clock, and calls `watch`, if
  // there is one, after each. Rethrows the first failure of any lane; what `watch` throws is one of the
  // compute lane.
  void run(std::uint32_t first, std::uint32_t end, bool timeline, const watcher& watch,
           std::vector<trace>& traces);

 private:
  void run_lane(lane which, std::uint32_t iteration, bool timeline);
  bool wait_for_others(const step& s, lane which);
  void wait_until_issued(lane_state& mine, lane other, std::int32_t index);
  void announce_step(lane which, std::uint32_t index);
  void append_trace(std::vector<trace>& traces, std::chrono::nanoseconds duration, bool timeline,
                    const watcher& watch, std::uint32_t done);

  run_state& run_;
  room_maker& room_;
  const step_issuer& steps_;
};

// The trace of an iteration has its timeline and the bytes that it moved.

// Copies and evictions are counted where they are issued. A prefetch of managed memory may find some of its
// range in place or nowhere yet, so the bytes that it moved stay unobserved, and so do faults and the
// driver's evictions. The timeline is of the events that the last iteration recorded.
trace trace_of(const run_state& run, std::chrono::nanoseconds duration, const moved_bytes& moved,
               bool timeline);

}  // namespace um
