// The driver's work for the accesses of one kernel to all operands outside the device arena, in the order
// described below; the CPU accesses them by address (core/graph.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "core/lower.hpp"
#include "core/machine.hpp"
#include "core/planner.hpp"
#include "simulator/managed_memory.hpp"

namespace um {

// The order in which kernels touch streamed operands: by grid_of() of each operator; all by address; or all
// resident data before missing data.
enum class touch_orders : std::uint8_t { by_grid, by_address, hits_first };

// A plan to simulate on a machine. Holds references: the four values must outlive it.
struct simulation_input {
  const graph& network;
  const execution_plan& plan;
  const machine& on;
  const profile& costs;            // one per operator
  slice_costs cost_of_slice = {};  // not set: cost_of() estimates (core/planner.hpp)
  touch_orders order = touch_orders::by_grid;
};

// The order in which an operator touches its operands.
//
// A kernel with a full grid works in waves. One wave is what all resident threads touch at once:
// 2048 threads per multiprocessor with 16 bytes each, in whole blocks. Of an operand that the kernel
// streams, each wave touches the next part; an operand that every thread block needs (the filter of
// a convolution, the activations of a fully connected layer with more weights than activations) is touched by
// every wave, so it comes back if the driver has evicted it.
//
//   convolution, data gradient    input and output streamed, filter and bias throughout
//   filter gradient               input and output gradient streamed, the filter's at the end
//   fully connected and gradients the larger matrix of the two large ones streamed, with operands along
//                                 the same axis; the other throughout
//   batch normalisation           the large tensors twice: statistics first, then all operands
//   everything else               all operands streamed
//
// Within a wave inputs come before outputs, in the order of the operands.
//
// Where each thread block of a resident grid reduces a channel of its own, blocks that find their data do not
// wait for those that fault. So resident data is used before the driver evicts it, and only what is missing
// when the kernel starts migrates.
//
//   waves      a block of threads for each tile or piece: products of matrices and convolutions by cuDNN and
//              cuBLAS, elementwise operators, pools
//   resident   a block for each channel: gradients of biases, the statistics of batch normalisation

enum class touch_phase : std::uint8_t { streamed, every_wave, after_waves };

enum class grid_kind : std::uint8_t { waves, resident };
grid_kind grid_of(const op& o);

// One entry for each operand of the operator, inputs first.
std::vector<touch_phase> phases_of(const graph& g, const op& o);
// How many times the streamed inputs are read before the main pass.
unsigned extra_input_passes(const op& o);

byte_count wave_bytes(const machine& on);

// The part of the runs that wave `i` of `n` touches; cut between whole blocks if there is one run.
std::vector<range> wave_of(const std::vector<range>& runs, std::uint64_t i, std::uint64_t n);

// Throws std::invalid_argument for a step that is no compute, or a rate the machine lacks.
managed_traffic touch_operands(const simulation_input& run, const step& s, managed_memory& memory);

}  // namespace um
