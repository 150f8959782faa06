// Writes the values that a run starts from, and reads those that it leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "backends/cuda/executor/plan_memory.hpp"
#include "core/graph.hpp"
#include "core/lower.hpp"

namespace um {

// Writes the initial value of every tensor that persists. Managed ones are written by the CPU, so that they
// start in host memory.
void write_initial_state(const graph& g, const execution_plan& plan, const plan_memory& memory);

// Reads results while the lanes are idle, outside of all measured times.
class result_reader {
 public:
  result_reader(const graph& g, const execution_plan& plan, const plan_memory& memory)
      : g_(g), plan_(plan), memory_(memory) {}

  // Throws std::invalid_argument for a tensor that does not survive an iteration.
  std::vector<std::byte> value_of(tensor_id id) const;
  // Writes every tensor that survives, as NAME.npy.
  void write_values(const std::filesystem::path& folder) const;
  // Hashes outputs and gradients of parameters.
  std::uint64_t digest_of_results() const;
  std::optional<double> loss() const;

 private:
  const graph& g_;
  const execution_plan& plan_;
  const plan_memory& memory_;
};

}  // namespace um
