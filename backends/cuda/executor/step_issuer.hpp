// Puts single steps of a plan on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backends/cuda/executor/room_maker.hpp"
#include "backends/cuda/executor/run_state.hpp"

namespace um {

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
  void poison(const step& s, cudaStream_t stream) const;

  run_state& run_;
  const room_maker& room_;
};

}  // namespace um
