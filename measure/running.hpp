// Operators of the CUDA backend, to run as a case or at the same time as one, with engines that the backend
// chooses.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/convolution_problem.hpp"
#include "backends/cuda/matrix_engines.hpp"
#include "measure/bench.hpp"

namespace um::measure {

// Maximum workspace of a chosen engine.
inline constexpr byte_count workspace_cap = 300 * MiB;

// One forward convolution of VGG-16 with bias and ReLU, as a fused network has it.
convolution_problem vgg_convolution(std::int64_t batch, std::int64_t channels, std::int64_t filters,
                                    std::int64_t extent);

// Bytes of each operand: x, w, y and, where there is one, b.
std::vector<byte_count> operand_bytes(const convolution_problem& of);
std::vector<byte_count> operand_bytes(const matrix_problem& of);

// Offsets of operands in one piece of memory, each at a new block, and its size.
struct operand_layout {
  std::vector<byte_count> offsets;
  byte_count bytes = 0;
};
operand_layout layout_of(const std::vector<byte_count>& operands);

// Fills memory with pseudo-random values on the GPU, and waits.
void fill_randomly_by_gpu(session& on, std::byte* data, byte_count bytes, dtype type = dtype::f32);

// An operator bound to operands in `data`; it owns its workspace.
struct bound_operator {
  kernel_call call;
  leased_memory workspace;
  std::string engine;
};
bound_operator bind_operator(bench& on, const auto& what, std::byte* data) {
  session& libraries = on.libraries();
  const engine chosen = choose_engine(libraries, what, workspace_cap);
  libraries.release_scratch();
  bound_operator made{{}, on.device_memory(chosen.choice.workspace_bytes), chosen.choice.engine};
  bound_operands operands;
  for (const byte_count at : layout_of(operand_bytes(what)).offsets) operands.data.push_back(data + at);
  operands.workspace = made.workspace.data();
  made.call = chosen.bind(operands);
  return made;
}

// An operator that also owns its operands, in device memory.
struct operator_with_operands {
  leased_memory memory;
  bound_operator work;
};
operator_with_operands operator_on_device(bench& on, const auto& what) {
  operator_with_operands made;
  made.memory = on.device_memory(layout_of(operand_bytes(what)).bytes);
  fill_randomly_by_gpu(on.libraries(), made.memory.data(), made.memory.bytes(),
                       operand_type(what.arithmetic));
  made.work = bind_operator(on, what, made.memory.data());
  return made;
}

}  // namespace um::measure
