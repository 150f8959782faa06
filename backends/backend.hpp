// The one seam between the real and the simulated machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/errors.hpp"
#include "core/lower.hpp"

namespace um {

// The workspace that one operator may use on a real GPU, unless a user says otherwise: less makes
// engines slower, more leaves less for the network. Measured on an H200, VGG-16 of batch 64 in fp32
// takes 64 ms with 512 MiB (level lean), since convolutions are cut along the batch to fit.
inline constexpr byte_count standard_workspace_cap = 2 * GiB;

struct execution_request {
  std::uint32_t iterations = 1;  // each is timed on its own, the first one first
  bool timeline = false;         // fill trace::spans and trace::resident
  bool digest = false;           // hash the loss and all gradients after the last iteration
  // Where to write every tensor that survives, after the last iteration, as NumPy files NAME.npy
  // in the order n, c, h, w (bf16 widened to f32); empty: nowhere. The folder exists.
  std::filesystem::path values = {};
  // Called with nothing under way on the device: before the first iteration (with 0), after it, after the
  // last, and after every one that is issued call by call, with their number so far. A simulator calls it
  // never.
  std::function<void(std::uint32_t done)> watch = {};
  // Once all else is taken iterations go on for about so long, at least one of them, if there is a `watch`:
  // it is told when they begin and when they have ended. 0: none.
  nanoseconds linger = 0;
  // Fill what has not been written yet, what is discarded, and what is evicted to a twin with bytes that
  // make NaNs: a missing transfer shows.
  bool poison = false;
  // Work out execution::band and execution::cycle; a GPU does not.
  bool band = false, cycle = false;
};

// How a backend issued the work: call by call, or what it recorded once and replayed: each operator, the
// operators between two that wait for copies or are waited for by them, or the whole iteration.
enum class launch_way : std::uint8_t { simulated, streams, operator_graphs, stretch_graphs, cuda_graph };
std::string_view to_text(launch_way way);

// What a slice of an operator ran with, where a library's engines were chosen among.
struct slice_cost {
  compute what;
  op_cost cost;  // its time when it was chosen
};

struct execution {
  std::vector<trace> iterations;
  // Hash over the bytes of every output and parameter gradient; equal digests mean equal bits.
  std::optional<std::uint64_t> digest;
  std::optional<double> loss;
  launch_way launched = launch_way::simulated;
  std::optional<time_band> band;
  std::optional<steady_cycle> cycle;  // nothing where iterations settle at one time
  std::vector<slice_cost> slices;     // of operators that the plan cuts, in its order
};

// A backend is called by the thread that opened it, one call after the other; `watch` is called by that
// thread too, and calls no backend. Backends of one process know nothing of each other, nor of what others
// hold of a GPU.
//
// After an error (unsupported, out_of_memory, std::invalid_argument, or what `watch` threw) what the call had
// allocated is freed, the iterations done so far are lost with it, and the backend may be called again. After
// an error of CUDA itself the device may be in any state, and the process is of no more use to it.
class backend {
 public:
  virtual ~backend() = default;
  virtual machine describe() = 0;
  // Time and workspace of every operator with everything resident.
  virtual profile measure(const graph& g) = 0;
  // The same for operators and parts of them, one cost for each of `what`: what planners ask for. Of the
  // fastest engine within compute.workspace; throws unsupported where there is none. Here a part takes one
  // launch and its share of the rest of the whole operator's time.
  virtual std::vector<op_cost> measure(const graph& g, std::span<const compute> what);
  // Runs `plan` that many times from its initial state (inputs and parameters on the host for
  // staged and managed tensors). Memory is allocated before the first step; a recording of the steps
  // is made between the first iteration and the second.
  virtual execution execute(const graph& g, const execution_plan& plan, const execution_request& how) = 0;
};

// For problem::cost_of_slice: asks the backend, once for each size of a part. What no engine computes, or not
// in the memory there is, costs an hour. Refers to both arguments.
slice_costs costs_of_slices(backend& by, const graph& g);

}  // namespace um
