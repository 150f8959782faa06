// Records the operators of a plan as CUDA graphs, and launches whole iterations of them.
//
// A plan that was issued once (lane_runner.hpp) is recorded as its steps say: operator by operator, or in
// stretches of the compute lane. The calling thread puts stretches, and the copies beside them, on the
// streams in plan order, one iteration after the other. There is no graph of all lanes: in one, copies waited
// for unrelated copies (docs/contributing/cuda.md).
#pragma once

#include <cstdint>
#include <vector>

#include "backends/backend.hpp"
#include "backends/cuda/executor/lane_runner.hpp"
#include "backends/cuda/executor/operator_calls.hpp"
#include "backends/cuda/executor/run_state.hpp"
#include "core/stretches.hpp"

namespace um {

class graph_recorder {
 public:
  graph_recorder(run_state& run, const step_issuer& steps);

  // Replaces the calls of operators by launches of their graphs. Returns false if some operator cannot be
  // recorded; its call stays as it was.
  bool record_operators();
  // Returns false, and keeps nothing, if some stretch cannot be recorded.
  bool record_stretches();
  // The mode of launching stretches: stretch_graphs, or cuda_graph if the plan copies nothing.
  launch_mode launch_mode_of_stretches() const;
  // Launches iterations of recorded stretches. No launch waits for the end of the iteration before it.
  // Appends their traces; times are the device's.
  void launch_iterations(std::uint32_t count, std::vector<trace>& traces);

 private:
  void launch_iteration();
  void make_stream_wait(cudaStream_t waiting, cudaStream_t awaited);

  run_state& run_;
  const step_issuer& steps_;
  cuda_event fork_event_;
  std::vector<recording> operators_;  // one per step; empty where it was not recorded
  stretch_cut stretch_cut_;
  std::vector<recording> stretches_;  // one per stretch of stretch_cut_
};

}  // namespace um
