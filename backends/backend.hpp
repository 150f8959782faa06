// Real and simulated machines implement this interface.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/errors.hpp"
#include "core/lower.hpp"

namespace um {

// An operator on a real GPU may use this workspace unless a user says otherwise. Less makes engines slower,
// more leaves less for the network. Measured on an H200, VGG-16 of batch 64 in fp32 takes 64 ms with 512 MiB
// (level lean), since convolutions are cut along the batch to fit.
inline constexpr byte_count standard_workspace_cap = 2 * GiB;

struct execution_request {
  std::uint32_t iterations = 1;   // each iteration is timed by itself
  bool records_timeline = false;  // fill trace::spans and trace::memory_samples
  bool computes_digest = false;   // hash the loss and all gradients after the last iteration
  // Where to write every tensor that survives, after the last iteration, as NumPy files NAME.npy
  // in the order n, c, h, w (bf16 widened to f32); empty: nowhere. The folder exists.
  std::filesystem::path values_folder = {};
  // Called with the number of iterations done, while the device is idle: before the first iteration, after
  // it, after the last, and after each that is issued call by call. A simulator never calls it.
  std::function<void(std::uint32_t done)> watch = {};
  // With a `watch`: at the end, further iterations run for about this time, at least one. `watch` is called
  // before and after them. 0: none.
  nanoseconds linger_time = 0;
  // Fills memory with NaNs before its first write, after a discard, and after an eviction to a twin, so that
  // a missing transfer shows.
  bool poisons_released_memory = false;
  // Whether to compute execution::band and execution::steady_cycle_found. Simulators alone can.
  bool computes_time_band = false, computes_steady_cycle = false;
};

// A backend issued the work simulated, call by call, or as CUDA graphs: one for each operator, one for each
// stretch of operators between two waits for copies, or one for the whole iteration.
enum class launch_mode : std::uint8_t { simulated, streams, operator_graphs, stretch_graphs, cuda_graph };
std::string_view to_text(launch_mode way);

// The cost of a part of an operator, where engines are chosen by time.
struct slice_cost {
  compute slice;
  op_cost cost;  // measured when the engine was chosen
};

struct execution {
  std::vector<trace> iterations;
  // A hash over the bytes of every output and parameter gradient. Equal digests mean equal bits.
  std::optional<std::uint64_t> digest;
  std::optional<double> loss;
  launch_mode launch = launch_mode::simulated;
  std::optional<time_band> band;
  std::optional<steady_cycle> steady_cycle_found;  // nothing if iterations settle at one time
  std::vector<slice_cost> slice_costs;             // for operators that the plan cuts, in plan order
};

// A backend is called by the thread that opened it, one call after the other; `watch` is called by that
// thread too, and calls no backend. Backends of one process do not know of each other, nor of memory that
// other programs hold on a GPU.
//
// After an error (unsupported, out_of_memory, std::invalid_argument, or an exception of `watch`) the memory
// of the call is freed, its iterations are lost, and the backend may be called again. After an error of
// CUDA itself the device may be in any state, and the process must not use it again.
class backend {
 public:
  virtual ~backend() = default;
  virtual machine describe() = 0;
  // Measures time and workspace of every operator with everything resident.
  virtual profile measure_operators(const graph& g) = 0;
  // Measures single operators and parts, one for each of `computes`, with the fastest engine within
  // compute.workspace. Throws unsupported if there is none.
  virtual std::vector<op_cost> measure_operators(const graph& g, std::span<const compute> computes) = 0;
  // Runs `request.iterations` iterations of `plan` from its initial state (inputs and parameters on the host
  // for staged and managed tensors). Memory is allocated before the first step. The steps are recorded
  // between the first iteration and the second.
  virtual execution execute(const graph& g, const execution_plan& plan, const execution_request& request) = 0;
};

// Makes problem::cost_of_slice, which asks the backend once for each size of a part. A part that no engine
// computes in the memory that is free costs an hour. Keeps references to both arguments.
slice_costs slice_cost_function(backend& by, const graph& g);

}  // namespace um
