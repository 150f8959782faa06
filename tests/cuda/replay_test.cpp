// Operators of which only touches and time are known: what stands for them takes their time and touches
// their operands, wherever these lie.
#include <algorithm>
#include <cstring>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/kernels/link_copy.hpp"
#include "tests/cuda/gpu.hpp"

namespace um::gpu_tests {
namespace {

constexpr nanoseconds us = 1000;

// Three in a row over 32 MiB each; the second writes a sum over the batch and a mask, too.
graph chain(nanoseconds duration) {
  graph g{"own", {}, {}};
  const dims wide{16, 512, 32, 32}, vector{1, 512, 1, 1};
  g.tensors = {{"x", wide, dtype::f32, role::input},
               {"y", wide},
               {"z", wide, dtype::f32, role::output},
               {"mask", wide, dtype::u8},
               {"s", vector, dtype::f32, role::parameter_gradient},
               {"out", wide, dtype::f32, role::output}};
  opaque what;
  what.label = "made_up";
  what.duration = duration;
  what.in = what.out = {batch_cut::part};
  opaque summing = what;
  summing.out = {batch_cut::part, batch_cut::part, batch_cut::sum};
  g.ops = {{"first", what, {0}, {1}, true, std::nullopt},
           {"second", summing, {1}, {2, 3, 4}, true, std::nullopt},
           {"third", what, {1}, {5}, true, std::nullopt}};
  return g;
}

class replay : public on_gpu {};

TEST_F(replay, TakesTheDuration) {
  const auto by = open_cuda(0, {});
  for (const nanoseconds duration : {200 * us, 1000 * us, 5000 * us}) {
    const graph g = chain(duration);
    for (const op_cost& c : by->measure_operators(g)) {
      EXPECT_GE(c.time, duration * 95 / 100);
      EXPECT_LE(c.time, duration * 105 / 100);
    }
  }
}

TEST_F(replay, APartTakesItsShare) {
  const auto by = open_cuda(0, {});
  const graph g = chain(4000 * us);
  const std::vector<compute> quarter{{1, {{4, 8}, {}, {}, {}}}};
  const nanoseconds time = by->measure_operators(g, quarter)[0].time;
  EXPECT_GE(time, 900 * us);
  EXPECT_LE(time, 1100 * us);
}

TEST_F(replay, WritesAllOfItsOutputsWhereverTheyLie) {
  const graph g = chain(100 * us);
  for (const residence home : {residence::device, residence::managed, residence::host}) {
    const bytes_by_tensor out = run(gpu(), g, everything(g, home));
    for (const tensor_id t : {2U, 5U}) {
      std::vector<float> values(out.at(t).size() / sizeof(float));
      std::memcpy(values.data(), out.at(t).data(), out.at(t).size());
      EXPECT_TRUE(std::ranges::all_of(values, [](float v) { return v > 0 && v < 0.1F; }))
          << g.tensors[t].name << " in " << to_text(home);
    }
  }
}

TEST_F(replay, RunsInParts) {
  const graph g = chain(400 * us);
  memory_plan plan = everything_on_device(g);
  plan.actions.clear();
  for (op_id o = 0; o < g.ops.size(); ++o) {
    for (std::int64_t part = 0; part < 4; ++part)
      plan.actions.emplace_back(compute{o, {{4 * part, 4 * part + 4}, {}, {}, {}}});
  }
  const bytes_by_tensor out = run(gpu(), g, plan);
  EXPECT_EQ(out.count(4), 1U);
}

// Two operators of 2 ms run while a copy takes 8 ms; a copy of 0.1 ms begins during the third operator.
TEST_F(replay, LeavesRoomForCopies) {
  if (device_attribute(cudaDevAttrComputeCapabilityMajor, gpu().device()) < 9)
    GTEST_SKIP() << "copies have no rate limit before compute capability 9.0";
  constexpr std::size_t bytes = 64 << 20, few = 1 << 20;
  constexpr std::uint64_t slow = 8'000'000'000;
  const arena touched = device_arena(bytes), on_device = device_arena(bytes), on_host = pinned_arena(bytes);
  const kernels::launch_site site = gpu().compute();
  const cuda_stream copies = make_stream();
  kernels::replayed_operator made;
  made.operands[0] = {touched.data(), bytes, true, false, true};
  made.count = 1;
  made.duration_ns = 2000 * us;
  std::vector<cuda_event> marks;
  const auto mark = [&](cudaStream_t on) {
    check(cudaEventRecord(marks.emplace_back(make_event(event_use::timing)).get(), on));
    return marks.size() - 1;
  };
  const auto ms_between = [&](std::size_t begin, std::size_t end) {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, marks[begin].get(), marks[end].get()));
    return ms;
  };
  const auto copy = [&](std::size_t of, std::uint64_t rate) {
    kernels::copy_over_link({copies.get(), site.multiprocessors}, on_device.data(), on_host.data(), of, rate);
  };
  kernels::replay(site, made, gpu().memory_bytes_per_s());  // loads the kernels
  copy(few, slow);
  check(cudaDeviceSynchronize());

  copy(bytes, slow);
  const std::size_t copied = mark(copies.get()), begun = mark(site.stream);
  for (int i = 0; i < 2; ++i) kernels::replay(site, made, gpu().memory_bytes_per_s());
  const std::size_t ended = mark(site.stream);
  check(cudaDeviceSynchronize());
  EXPECT_GT(ms_between(begun, copied), 5) << "the copy did not run beside both";
  EXPECT_LT(ms_between(begun, ended), 4.4) << "operators wait for a copy";

  made.duration_ns = 20'000 * us;
  kernels::replay(site, made, gpu().memory_bytes_per_s());
  copy(few, 0);
  const std::size_t copied_beside = mark(copies.get()), ended_beside = mark(site.stream);
  check(cudaDeviceSynchronize());
  EXPECT_GT(ms_between(copied_beside, ended_beside), 10) << "the copy waits for the operator";
}

}  // namespace
}  // namespace um::gpu_tests
