// Makes room in device memory for managed tensors: evicts, discards, and populates blocks for twins.
//
// While a thread is in a call that migrates managed memory, the calls of all other threads wait, launches
// too, and the driver does not serve them in turn. So an eviction is split into calls of the size that the
// step says. Before each of them it lets lanes that have something to issue go first, for as long as the step
// says.
//
// A discard blocks the CPU. On a busy stream it took effect late, after work that was put on the stream after
// it. So a discard thread handles each step of the lane to the host: it waits until the lane's thread has
// handed the step over and the device has completed it, discards on a separate stream, and only then
// announces the step as issued.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/executor/run_state.hpp"

namespace um {

class room_maker {
 public:
  explicit room_maker(run_state& run);

  // Discards the device memory of each twin after its copy to the host, and the tensors that the plan
  // discards, in plan order. The discard thread runs this once an iteration.
  void discard_for_iteration();
  // For the thread of the lane to the host. Evicts, and returns when the copy has ended. Counts the bytes.
  void evict(managed_range memory, const step& s, cudaStream_t stream, moved_bytes& moved) const;
  // For the thread of the lane to the device. Allocates the device memory of a twin before its copy, by a
  // prefetch. The memory was discarded, so the prefetch copies nothing.
  void populate(const step& s) const;

 private:
  bool other_threads_are_in_calls() const;
  void discard_memory_of_step(const step& s) const;

  run_state& run_;
  cuda_stream discard_stream_, populate_stream_;
};

}  // namespace um
