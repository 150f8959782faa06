// What the tests on a GPU share: a session per test program, or the reason why there is none; and
// one run of a small graph compared with the reference.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "backends/cuda/executor/executor.hpp"
#include "backends/cuda/session.hpp"
#include "core/lower.hpp"

namespace um::gpu_tests {

// Tests derive from this; without a GPU they are skipped with the reason.
class on_gpu : public ::testing::Test {
 protected:
  void SetUp() override;
  // Shared by all tests of a program, with an engine cache of its own in the temporary folder.
  static session& gpu();
};

// Workspaces as the engines chosen for whole operators need them; no times.
profile workspaces_of(session& gpu, const graph& g);

memory_plan everything_on_device(const graph& g);
memory_plan everything(const graph& g, residence home);
// Every operator cut into `of` parts along the batch.
memory_plan cut_into(const graph& g, std::uint32_t of);

execution_plan lowered(const graph& g, const profile& costs, const memory_plan& plan);

// All surviving tensors after one iteration, by id.
using bytes_by_tensor = std::map<tensor_id, std::vector<std::byte>>;
bytes_by_tensor run(session& gpu, const graph& g, const memory_plan& plan);

// The same in double precision from the same initial values, and
// ||out - reference|| / ||reference|| for every tensor that the graph writes and that survives.
std::map<std::string, double> errors_against_reference(const graph& g, const bytes_by_tensor& out);

}  // namespace um::gpu_tests
