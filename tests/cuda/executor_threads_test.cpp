// The executor's threads without a GPU. On a fake runtime with real queues every strategy must give the bits
// of the same computations with everything on the device. Operators write a hash of their inputs, so that a
// missing wait, a missing copy or a wrong address shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cuda/executor/executor.hpp"
#include "backends/cuda/kernels/link_copy.hpp"
#include "backends/cuda/kernels/pitched_copy.hpp"
#include "backends/cuda/operators.hpp"
#include "backends/digest.hpp"
#include "core/access.hpp"
#include "hints/hints.hpp"
#include "networks/catalogue.hpp"
#include "planners/planners.hpp"
#include "simulator/roofline.hpp"
#include "tests/cuda/fake_cuda.hpp"
#include "tests/machines.hpp"

// What the executor calls besides the runtime, in place of the library's own.
namespace um {

session::session(int device, const cuda_options& options)
    : device_(device), options_(options), compute_(make_stream()), engines_(options.engine_cache) {}

struct hashed_operand {
  byte_count bytes = 0;
  access_mode mode = access_mode::read;
};

void write_hash(const std::vector<hashed_operand>& operands, const std::vector<std::byte*>& data) {
  digest all;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].mode != access_mode::write) all.add({data[i], operands[i].bytes});
  }
  const std::uint64_t hash = all.value();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].mode == access_mode::read) continue;
    for (byte_count at = 0; at < operands[i].bytes; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = hash + at + i;
      std::memcpy(data[i] + at, &word, std::min(sizeof word, operands[i].bytes - at));
    }
  }
}

engine choose_engine(session& gpu, const graph& g, const op& o, const box& part, std::uint32_t, byte_count) {
  std::vector<hashed_operand> operands;
  for (const access& a : accesses_of(g, o, part))
    operands.push_back({bytes_of(g.tensors[a.tensor], a.where), a.mode});
  return {{"fake", 0, 0, 1}, [s = gpu.compute().stream, operands](const bound_operands& to) -> kernel_call {
            return [s, operands, data = to.data] {
              testing::put_on(s, [operands, data] { write_hash(operands, data); });
            };
          }};
}

namespace kernels {

void copy_box_by_engine(cudaStream_t stream, std::byte* to, const std::byte* from, const byte_box& box) {
  testing::put_on(stream, [=] {
    for (byte_count slice = 0; slice < box.depth; ++slice) {
      for (byte_count run = 0; run < box.height; ++run) {
        std::memcpy(to + slice * box.to_slice + run * box.to_pitch,
                    from + slice * box.from_slice + run * box.from_pitch, box.width);
      }
    }
  });
}
void copy_box_by_kernel(cudaStream_t stream, std::byte* to, const std::byte* from, const byte_box& box) {
  copy_box_by_engine(stream, to, from, box);
}
void copy_over_link(launch_site where, const void* from, void* to, std::size_t bytes, std::uint64_t) {
  testing::put_on(where.stream, [=] { std::memcpy(to, from, bytes); });
}

}  // namespace kernels

namespace {

// One advice for each kind of tensor is enough, and the integer program takes long.
std::vector<strategy> strategies_to_run() {
  std::vector<strategy> all(planners().begin(), planners().end());
  all.insert(all.end(), hint_strategies().begin(), hint_strategies().end());
  std::erase_if(all, [](const strategy& s) {
    const bool advises = s.name.starts_with("read_mostly_") || s.name.starts_with("preferred_") ||
                         s.name.starts_with("accessed_by_");
    return s.name == "tvdnn_ilp" || (advises && !s.name.ends_with("_activations"));
  });
  return all;
}

// The same computations with everything on the device.
memory_plan resident_like(const graph& g, const memory_plan& plan) {
  memory_plan resident;
  resident.residences.assign(g.tensors.size(), residence::device);
  for (const action& a : plan.actions) {
    if (std::holds_alternative<compute>(a)) resident.actions.push_back(a);
  }
  return resident;
}

struct executor_threads : ::testing::TestWithParam<strategy> {
  session on{0, {.engine_cache = "/nonexistent/engines.jsonl"}};
  graph g = build_network({.name = "resnet20_cifar", .batch = 32, .fusion_mode = fusion::none});
  machine figures = testing::managed_test_machine();
  profile costs = estimate(g, figures);

  std::uint64_t digest_of(const problem& p, const memory_plan& plan, execution_request request) {
    request.computes_digest = true;
    const execution_plan steps = lower(p, plan);
    executor runs(on, g, steps);
    const execution done = runs.run(request);
    EXPECT_EQ(done.iterations.size(), request.iterations);
    return done.digest.value();
  }
  // Of everything on the device, once for each order of computations.
  std::uint64_t resident_digest(const memory_plan& resident) {
    static std::vector<std::pair<memory_plan, std::uint64_t>> known;
    const auto same = std::ranges::find(known, resident, &std::pair<memory_plan, std::uint64_t>::first);
    if (same != known.end()) return same->second;
    const problem roomy = within(std::numeric_limits<byte_count>::max(), evictor::none);
    known.emplace_back(resident, digest_of(roomy, resident, {.iterations = 1}));
    return known.back().second;
  }
  problem within(byte_count budget, evictor evicted_by) const {
    return {g, costs, figures, budget, evicted_by, {}};
  }
};

TEST_P(executor_threads, give_the_bits_of_the_device) {
  const strategy& s = GetParam();
  for (const byte_count percent : {140U, 90U}) {  // with room only where there is no plan without
    problem p = within(footprint_of(g, costs).total * 100 / percent, evictor::plan);
    try {
      p.knobs = complete_knobs(s, {});
      const memory_plan plan = s.plan(p);
      const bool timeline = s.name.starts_with("m") || s.name == "twin";  // issued, not launched as graphs
      const std::uint64_t done = digest_of(
          p, plan, {.iterations = 2, .records_timeline = timeline, .poisons_released_memory = true});
      EXPECT_EQ(done, resident_digest(resident_like(g, plan)));
      return;
    } catch (const infeasible&) {
    }
  }
  FAIL() << "no plan";
}

INSTANTIATE_TEST_SUITE_P(all, executor_threads, ::testing::ValuesIn(strategies_to_run()),
                         [](const auto& of) { return of.param.name; });

using executor_failures = executor_threads;

TEST_F(executor_failures, of_the_watch_end_all_threads) {
  problem p = within(footprint_of(g, costs).total * 2 / 3, evictor::plan);
  const strategy& s = *find_strategy(hint_strategies(), "twin");
  p.knobs = complete_knobs(s, {});
  const execution_plan steps = lower(p, s.plan(p));
  executor runs(on, g, steps);
  const auto fail = [](std::uint32_t done) {
    if (done > 0) throw std::runtime_error("enough");
  };
  EXPECT_THROW(runs.run({.iterations = 3, .watch = fail}), std::runtime_error);
}

}  // namespace
}  // namespace um
