#include "tests/cuda/gpu.hpp"

#include <unistd.h>

#include <filesystem>
#include <memory>

#include "backends/cuda/operators.hpp"
#include "backends/initial_values.hpp"
#include "tests/cuda/elements.hpp"
#include "tests/reference/reference.hpp"

namespace um::gpu_tests {
namespace {

constexpr byte_count workspace_cap = 256 * MiB;

struct opened {
  std::unique_ptr<session> on;
  std::string reason;
};

opened open_once() {
  cuda_options options;
  options.workspace_cap = workspace_cap;
  options.brief_search = true;
  options.engine_cache =
      std::filesystem::temp_directory_path() / ("umbench_engines_" + std::to_string(getpid()) + ".json");
  try {
    return {std::make_unique<session>(0, options), {}};
  } catch (const unsupported& reason) {
    return {nullptr, reason.what()};
  }
}

opened& shared_session() {
  static opened it = open_once();
  return it;
}

}  // namespace

void on_gpu::SetUp() {
  if (!shared_session().on) GTEST_SKIP() << shared_session().reason;
}

session& on_gpu::gpu() {
  return *shared_session().on;
}

profile workspaces_of(session& gpu, const graph& g) {
  profile costs;
  for (const op& o : g.ops) {
    costs.push_back({0, choose_engine(gpu, g, o, {}, 16, workspace_cap).choice.workspace_bytes, {}});
  }
  return costs;
}

memory_plan everything(const graph& g, residence home) {
  memory_plan plan;
  plan.residences.assign(g.tensors.size(), home);
  for (op_id o = 0; o < g.ops.size(); ++o) plan.actions.emplace_back(compute{o, {}});
  return plan;
}

memory_plan everything_on_device(const graph& g) {
  return everything(g, residence::device);
}

memory_plan cut_into(const graph& g, std::uint32_t of) {
  memory_plan plan;
  plan.residences.assign(g.tensors.size(), residence::device);
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const std::int64_t extent = iteration_domain(g, g.ops[o]).batch.end;
    for (std::uint32_t part = 0; part < of; ++part) {
      plan.actions.emplace_back(compute{o, batch_part(extent, part, of)});
    }
  }
  return plan;
}

execution_plan lowered(const graph& g, const profile& costs, const memory_plan& plan) {
  const machine on;
  return lower({g, costs, on, std::numeric_limits<byte_count>::max(), evictor::none, {}}, plan);
}

bytes_by_tensor run(session& gpu, const graph& g, const memory_plan& plan) {
  const execution_plan steps = lowered(g, workspaces_of(gpu, g), plan);
  executor runs(gpu, g, steps);
  runs.run({});
  bytes_by_tensor all;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (survives(g.tensors[t].role)) all[t] = runs.value_of(t);
  }
  return all;
}

std::map<std::string, double> errors_against_reference(const graph& g, const bytes_by_tensor& out) {
  std::map<tensor_id, reference::values> given;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (persists(g.tensors[t].role)) given[t] = from_memory(g.tensors[t], initial_values(g, t));
  }
  const auto expected = reference::execute(g, given);
  std::map<std::string, double> errors;
  for (const auto& [t, bytes] : out) {
    if (persists(g.tensors[t].role) && g.tensors[t].role != role::parameter) continue;
    errors[g.tensors[t].name] = relative_error(from_memory(g.tensors[t], bytes), expected.at(t));
  }
  return errors;
}

}  // namespace um::gpu_tests
