// Runs execution plans on a GPU.
//
// | part           | does                                                                          |
// |----------------|-------------------------------------------------------------------------------|
// | lane_runner    | issues iterations step by step, one stream and one thread for each lane       |
// | room_maker     | evicts and discards managed memory                                            |
// | graph_recorder | records operators as CUDA graphs and launches iterations of them              |
// | result_reader  | reads losses, digests and values back                                         |
//
// run_state.hpp says which thread owns what. Engines, operands, events and memory are all made before the
// first step, graphs between the first iteration and the second.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/backend.hpp"
#include "backends/cuda/engine.hpp"
#include "backends/cuda/executor/graph_recorder.hpp"
#include "backends/cuda/executor/lane_runner.hpp"
#include "backends/cuda/executor/result_reader.hpp"
#include "backends/cuda/executor/room_maker.hpp"
#include "backends/cuda/executor/run_state.hpp"
#include "backends/cuda/session.hpp"

namespace um {

class executor {
 public:
  // Chooses engines and allocates the arenas. `g` and `plan` must outlive the executor. Throws unsupported,
  // out_of_memory, or std::invalid_argument for a plan whose workspaces are too small for this device's
  // engines.
  executor(session& gpu, const graph& g, const execution_plan& plan);

  execution run(const execution_request& request);

  // Returns the value of a tensor that survives, after a run.
  std::vector<std::byte> value_of(tensor_id id) const { return result_reader_.value_of(id); }

 private:
  void run_untimed_iterations(const execution_request& request, nanoseconds each, bool in_graphs);

  std::vector<engine> engines_;  // one per step; empty but for computes
  run_state state_;
  room_maker room_maker_;
  step_issuer step_issuer_;
  lane_runner lane_runner_;
  graph_recorder graph_recorder_;
  result_reader result_reader_;
};

}  // namespace um
