// State that the threads of a run share, and which thread owns which part of it.
//
// | thread         | runs                                       | writes                                  |
// |----------------|--------------------------------------------|-----------------------------------------|
// | the caller     | the compute lane, and everything between   | the compute lane's lane_state           |
// |                | iterations                                 |                                         |
// | lane to_device | copies and prefetches to the device        | its lane_state                          |
// | lane to_host   | copies and evictions to the host           | its lane_state, but not `last_issued`   |
// |                |                                            | if there is a discard thread            |
// | discard thread | discards after steps of the lane to the    | `last_issued` of that lane,             |
// |                | host, if the plan has any (room_maker.hpp) | discard_is_in_call, discard_failure     |
//
// A thread that fails sets `has_failed` and calls release_waiting_threads() for its lane. Members that are
// not atomic are read by other threads only while the lanes are idle: before the first barrier of an
// iteration or behind its last (lane_runner.cpp). Graphs (graph_recorder.hpp) are launched by the caller
// while no other thread exists.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <vector>

#include "backends/cuda/engine.hpp"
#include "backends/cuda/executor/plan_memory.hpp"
#include "backends/cuda/session.hpp"
#include "core/graph.hpp"
#include "core/lower.hpp"
#include "um_allocators/handle.hpp"

namespace um {

// The bytes that a lane's steps moved in an iteration.
struct moved_bytes {
  byte_count copied_to_device = 0, copied_to_host = 0;  // copies of staged and twinned tensors
  byte_count prefetched = 0,
             evicted = 0;  // managed memory: bytes requested, some of which may have been in place
};

struct lane_state {
  cudaStream_t stream = nullptr;
  std::vector<std::uint32_t> steps;  // indices of the lane's steps in the plan, ascending
  moved_bytes moved;
  std::atomic<std::int32_t> last_issued{no_step};       // last step whose event others may wait for
  std::atomic<std::int32_t> last_handed_over{no_step};  // last step handed to the discard thread
  std::atomic<std::int32_t> awaited_step{no_step};  // step of the lane to the host that this lane waits for
  std::atomic<bool> is_in_call{false};              // its thread is in a call, or about to be
  std::exception_ptr failure;                       // exception of its thread
};

// The kernels and events of a step of the plan.
struct step_resources {
  kernel_call call;                   // a compute's kernels
  cuda_event done_event;              // if a step of another lane waits for this one
  cuda_event copied_event;            // lane to_host, if the discard thread discards after the copy
  cuda_event begin_event, end_event;  // if a timeline is requested
};

struct run_state {
  // Allocates the arenas and the streams; `engines` has one entry for each step. Throws as plan_memory does.
  run_state(session& with, const graph& g, const execution_plan& to_run, const std::vector<engine>& engines);

  lane_state& lane_of(lane l) { return lane_states[static_cast<std::size_t>(l)]; }
  void make_events(bool timeline);
  // Returns the sum of the bytes that the lanes moved, and resets them. The lanes must be idle.
  moved_bytes take_moved_bytes();

  session& cuda_session;
  const graph& network;
  const execution_plan& plan;
  plan_memory memory;
  cuda_stream to_device_stream, to_host_stream;
  cuda_event start;                                // recorded at the start of an iteration with a timeline
  std::vector<step_resources> resources_of_steps;  // one per step
  std::array<lane_state, lane_count> lane_states;
  bool has_discard_thread = false;              // whether a step discards: then there is a discard thread
  bool poisons_released_memory = false;         // overwrite released memory with NaNs
  std::atomic<bool> discard_is_in_call{false};  // the discard thread is in a call
  std::exception_ptr discard_failure;   // separate from its lane's, whose thread may fail at the same time
  std::atomic<bool> has_failed{false};  // a thread failed: the iteration is abandoned
};

// Stores a step and wakes the threads that wait for it.
void store_and_notify(std::atomic<std::int32_t>& last, std::int32_t step);
// Waits until `last` has reached `step`.
void wait_until_reached(const std::atomic<std::int32_t>& last, std::int32_t step);
// After a failure: wakes all threads that wait for this lane.
void release_waiting_threads(lane_state& l);

}  // namespace um
