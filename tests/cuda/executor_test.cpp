// The executor: every residence computes the same bits, movements happen, waits hold, the trace
// tells what was done.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <utility>

#include "backends/cuda/executor/operator_calls.hpp"
#include "backends/npy.hpp"
#include "networks/catalogue.hpp"
#include "tests/cuda/gpu.hpp"
#include "um_allocators/arena.hpp"

namespace um::gpu_tests {
namespace {

network_spec small_vgg(bool sgd = false) {
  return {.name = "vgg11", .batch = 4, .appends_sgd = sgd, .knobs = {{"insize", 32}}};
}

graph small_network(bool sgd = false) {
  return build_network(small_vgg(sgd));
}

// Every staged tensor is fetched right before and stored right after each operator.
memory_plan staged_throughout(const graph& g) {
  memory_plan plan;
  plan.residences.assign(g.tensors.size(), residence::staged);
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const op& what = g.ops[o];
    for (const tensor_id t : what.in) plan.actions.emplace_back(prefetch{t, {}});
    plan.actions.emplace_back(compute{o, {}});
    std::vector<tensor_id> touched = what.in;
    for (const tensor_id t : what.out) {
      if (std::find(touched.begin(), touched.end(), t) == touched.end()) touched.push_back(t);
    }
    for (const tensor_id t : touched) plan.actions.emplace_back(evict{t, {}});
  }
  return plan;
}

// What that moves: every operator's inputs in, and what it writes out; what it has only read is at home
// still.
struct traffic {
  byte_count in = 0, out = 0;
};
traffic traffic_of_staged_throughout(const graph& g) {
  traffic all;
  const auto sum = [&](const std::vector<tensor_id>& of) {
    byte_count bytes = 0;
    for (const tensor_id t : std::set(of.begin(), of.end())) bytes += bytes_of(g.tensors[t]);
    return bytes;
  };
  for (const op& o : g.ops) {
    all.in += sum(o.in);
    all.out += sum(o.out);
  }
  return all;
}

// As above with managed memory; tensors below a block cannot be moved alone and stay.
memory_plan managed_to_and_fro(const graph& g) {
  memory_plan plan = staged_throughout(g);
  plan.residences.assign(g.tensors.size(), residence::managed);
  return plan;
}

class executors : public on_gpu {
 protected:
  execution execute(const graph& g, const memory_plan& plan, const execution_request& request) {
    const execution_plan steps = lowered(g, workspaces_of(gpu(), g), plan);
    return executor(gpu(), g, steps).run(request);
  }
};

TEST_F(executors, network_agrees_with_double_precision) {
  const graph g = small_network();
  for (const auto& [name, error] : errors_against_reference(g, run(gpu(), g, everything_on_device(g)))) {
    std::cout << "  " << name << ": " << error << '\n';
    // Rounding may tip a few ReLUs, so gradients are allowed more than single operators are.
    EXPECT_LT(error, 1e-3) << name;
    EXPECT_FALSE(std::isnan(error)) << name;
  }
}

TEST_F(executors, every_residence_gives_the_same_bits) {
  const graph g = small_network();
  const auto expected = run(gpu(), g, everything_on_device(g));
  EXPECT_EQ(expected, run(gpu(), g, everything(g, residence::managed)));
  EXPECT_EQ(expected, run(gpu(), g, everything(g, residence::host)));
  EXPECT_EQ(expected, run(gpu(), g, staged_throughout(g)));
  EXPECT_EQ(expected, run(gpu(), g, managed_to_and_fro(g)));
}

TEST_F(executors, iterations_continue_from_each_other) {
  const graph g = small_network(true);
  const execution_request three{.iterations = 3, .computes_digest = true},
      one{.iterations = 1, .computes_digest = true};
  const execution device = execute(g, everything_on_device(g), three);
  ASSERT_EQ(device.iterations.size(), 3U);
  EXPECT_NE(device.digest, execute(g, everything_on_device(g), one).digest) << "the update had no effect";
  EXPECT_EQ(device.digest, execute(g, staged_throughout(g), three).digest);
  EXPECT_EQ(device.digest, execute(g, managed_to_and_fro(g), three).digest);
  EXPECT_TRUE(device.loss.has_value());
}

// A timeline keeps the executor from recording.
TEST_F(executors, replay_a_recording_to_the_same_bits) {
  network_spec apart = small_vgg();
  apart.fusion_mode = fusion::none;  // updates cannot be cut
  const graph plain = build_network(apart), updated = small_network(true);
  const execution_request issued{.iterations = 4, .records_timeline = true, .computes_digest = true};
  const execution_request recorded{.iterations = 4, .computes_digest = true};
  for (const auto& [g, plan] : {std::pair{&updated, everything_on_device(updated)},
                                {&updated, everything(updated, residence::host)},
                                {&updated, staged_throughout(updated)},
                                {&plain, cut_into(plain, 2)}}) {
    const execution expected = execute(*g, plan, issued), out = execute(*g, plan, recorded);
    EXPECT_EQ(expected.launch, launch_mode::streams);
    const bool copies = std::ranges::find(plan.residences, residence::staged) != plan.residences.end();
    EXPECT_EQ(out.launch, copies ? launch_mode::stretch_graphs : launch_mode::cuda_graph);
    EXPECT_EQ(out.digest, expected.digest);
    EXPECT_EQ(out.loss, expected.loss);
    ASSERT_EQ(out.iterations.size(), 4U);
    for (const trace& t : out.iterations) {
      EXPECT_GT(t.duration, 0);
      EXPECT_EQ(t.counts.copy_to_device_bytes, expected.iterations[0].counts.copy_to_device_bytes);
      EXPECT_EQ(t.counts.copy_to_host_bytes, expected.iterations[0].counts.copy_to_host_bytes);
    }
  }
}

TEST_F(executors, call_the_watch) {
  using numbers = std::vector<std::uint32_t>;
  const graph g = small_network(true);
  for (const auto& [plan, expected] : {std::pair{everything_on_device(g), numbers{0, 1, 4, 4}},
                                       {managed_to_and_fro(g), {0, 1, 2, 3, 4, 4}}}) {
    numbers told;
    execution_request request{.iterations = 4, .computes_digest = true};
    const execution unwatched = execute(g, plan, request);
    request.linger_time = 1;
    request.watch = [&](std::uint32_t done) {
      EXPECT_EQ(cudaStreamQuery(gpu().compute().stream), cudaSuccess);
      told.push_back(done);
    };
    const execution watched = execute(g, plan, request);
    EXPECT_EQ(watched.iterations.size(), 4U);
    EXPECT_EQ(watched.digest, unwatched.digest) << "what lingers must not count";
    ASSERT_GT(told.size(), expected.size());
    EXPECT_EQ(numbers(told.begin(), told.begin() + static_cast<std::ptrdiff_t>(expected.size())), expected);
    EXPECT_EQ(told.size(), expected.size() + 1);
    EXPECT_EQ(told.back(), 5U);
  }
}

TEST_F(executors, end_where_the_watch_fails) {
  const graph g = small_network();
  for (const auto& plan : {everything_on_device(g), managed_to_and_fro(g)}) {
    execution_request request{.iterations = 3};
    request.watch = [](std::uint32_t done) {
      if (done == 1) throw unsupported("seen enough");
    };
    EXPECT_THROW(execute(g, plan, request), unsupported);
  }
}

TEST_F(executors, record_only_what_can_be_replayed) {
  const graph g = small_network();
  const execution_request three{.iterations = 3};
  EXPECT_EQ(execute(g, managed_to_and_fro(g), three).launch, launch_mode::operator_graphs);
  EXPECT_EQ(execute(g, managed_to_and_fro(g), {.iterations = 1}).launch, launch_mode::streams);
  EXPECT_EQ(execute(g, everything_on_device(g), {.iterations = 1}).launch, launch_mode::streams);
  EXPECT_EQ(execute(g, everything_on_device(g), three).launch, launch_mode::cuda_graph);
  EXPECT_EQ(execute(g, staged_throughout(g), three).launch, launch_mode::stretch_graphs);
}

TEST_F(executors, run_again_after_a_recording) {
  const graph g = small_network(true);
  const execution_plan steps = lowered(g, workspaces_of(gpu(), g), staged_throughout(g));
  executor runs(gpu(), g, steps);
  const execution_request three{.iterations = 3, .computes_digest = true};
  const execution first = runs.run(three);
  EXPECT_EQ(runs.run(three).digest, first.digest) << "a run starts from the initial state";
}

TEST_F(executors, what_cannot_be_recorded_leaves_the_stream_as_it_was) {
  const cudaStream_t on = gpu().compute().stream;
  const arena memory = device_arena(MiB);
  const auto fill = [&](int value) { check(cudaMemsetAsync(memory.data(), value, MiB, on)); };
  const auto last = [&] {
    std::byte value{};
    check(cudaMemcpy(&value, memory.data() + MiB - 1, 1, cudaMemcpyDefault));
    return std::to_integer<int>(value);
  };
  fill(1);
  check(cudaStreamSynchronize(on));
  EXPECT_FALSE(record_graph(on, [&] {
    fill(2);
    check(cudaStreamSynchronize(on));  // not while recording
  }));
  EXPECT_FALSE(record_graph(on, [&] { throw unsupported("an engine that gives up"); }));
  EXPECT_EQ(last(), 1) << "something ran while it was recorded";
  const recording good = record_graph(on, [&] { fill(3); });
  ASSERT_TRUE(good);
  EXPECT_EQ(last(), 1);
  check(cudaGraphLaunch(good.get(), on));
  check(cudaStreamSynchronize(on));
  EXPECT_EQ(last(), 3);
  fill(4);
  check(cudaStreamSynchronize(on));
  EXPECT_EQ(last(), 4);
}

TEST_F(executors, write_every_value_that_survives) {
  const auto folder = std::filesystem::temp_directory_path() / ("umbench_values_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const graph g = small_network();
  const execution_plan steps = lowered(g, workspaces_of(gpu(), g), everything_on_device(g));
  executor runs(gpu(), g, steps);
  runs.run({.iterations = 2, .values_folder = folder});
  std::size_t files = 0;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (!survives(g.tensors[t].role)) continue;
    std::ifstream in(folder / (g.tensors[t].name + ".npy"), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::vector<std::byte> expected = npy_elements(g.tensors[t], runs.value_of(t));
    const std::size_t header = npy_header(g.tensors[t]).size();
    ASSERT_EQ(text.size(), header + expected.size()) << g.tensors[t].name;
    EXPECT_EQ(std::memcmp(text.data() + header, expected.data(), expected.size()), 0) << g.tensors[t].name;
    ++files;
  }
  const std::filesystem::directory_iterator all(folder), none;
  EXPECT_EQ(static_cast<std::ptrdiff_t>(files), std::distance(all, none));
  std::filesystem::remove_all(folder);
}

// Parameters hold the same values whatever the order in memory; sums differ in their rounding.
TEST_F(executors, orders_and_fusions_agree) {
  std::optional<double> expected;
  for (const fusion joined : {fusion::none, fusion::fused, fusion::lean}) {
    for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
      network_spec spec = small_vgg();
      spec.fusion_mode = joined;
      spec.order = order;
      const graph g = build_network(spec);
      const execution done = execute(g, everything_on_device(g), {.iterations = 2});
      ASSERT_TRUE(done.loss.has_value());
      if (!expected) expected = done.loss;
      EXPECT_NEAR(*done.loss, *expected, 1e-4 * *expected) << to_text(joined) << ' ' << to_text(order);
    }
  }
}

TEST_F(executors, every_residence_gives_the_same_bits_in_every_precision) {
  for (const precision arithmetic : {precision::fp32, precision::tf32, precision::bf16}) {
    for (const fusion joined : {fusion::none, fusion::fused, fusion::lean}) {
      network_spec spec = small_vgg();
      spec.arithmetic = arithmetic;
      spec.fusion_mode = joined;
      const graph g = build_network(spec);
      const execution_request twice{.iterations = 2, .computes_digest = true};
      const execution device = execute(g, everything_on_device(g), twice);
      const std::string which = std::string(to_text(arithmetic)) + " " + std::string(to_text(joined));
      EXPECT_TRUE(std::isfinite(device.loss.value_or(NAN))) << which;
      EXPECT_EQ(device.digest, execute(g, staged_throughout(g), twice).digest) << which;
      EXPECT_EQ(device.digest, execute(g, managed_to_and_fro(g), twice).digest) << which;
    }
  }
}

TEST_F(executors, trace_counts_copies_and_orders_spans) {
  const graph g = small_network();
  const memory_plan plan = staged_throughout(g);
  const execution_plan steps = lowered(g, workspaces_of(gpu(), g), plan);
  const execution done = executor(gpu(), g, steps).run({.iterations = 2, .records_timeline = true});
  const traffic moved = traffic_of_staged_throughout(g);
  for (const trace& t : done.iterations) {
    EXPECT_EQ(t.counts.copy_to_device_bytes, moved.in);
    EXPECT_EQ(t.counts.copy_to_host_bytes, moved.out);
    EXPECT_EQ(t.counts.faults, 0U);
    ASSERT_EQ(t.spans.size(), steps.steps.size());
    EXPECT_EQ(t.memory_samples.size(), steps.steps.size());
    for (const span& s : t.spans) {
      EXPECT_LE(s.begin, s.end);
      EXPECT_LE(s.end, t.duration);
      for (const std::int32_t other : steps.steps[s.step].waits_for) {
        if (other == no_step) continue;
        // Event times are exact to about a microsecond.
        EXPECT_LE(t.spans[static_cast<std::size_t>(other)].end, s.end + 1000);
      }
    }
  }
}

// Every iteration counts its own, issued or launched.
TEST_F(executors, counts_copies_of_recordings_too) {
  const graph g = small_network(true);
  const execution done = execute(g, staged_throughout(g), {.iterations = 4});
  ASSERT_EQ(done.launch, launch_mode::stretch_graphs);
  ASSERT_EQ(done.iterations.size(), 4U);
  const traffic moved = traffic_of_staged_throughout(g);
  for (const trace& t : done.iterations) {
    EXPECT_EQ(t.counts.copy_to_device_bytes, moved.in);
    EXPECT_EQ(t.counts.copy_to_host_bytes, moved.out);
  }
}

// Twins are copied by kernels; what goes out is what the plan evicts and has been written since it came.
TEST_F(executors, counts_copies_of_twins) {
  graph g;
  const dims shape{1, 1, 1024, 1024};  // two managed blocks
  g.tensors = {{"x", shape, dtype::f32, role::input}, {"y", shape, dtype::f32, role::output}};
  g.ops = {{"relu", relu{}, {0}, {1}, true, {}}};
  memory_plan plan = everything_on_device(g);
  plan.residences = {residence::twinned, residence::twinned};
  plan.actions = {prefetch{0, {}}, compute{0, {}}, evict{0, {}}, evict{1, {}}};
  const execution done = execute(g, plan, {.iterations = 2});
  for (const trace& t : done.iterations) {
    EXPECT_EQ(t.counts.copy_to_device_bytes, 4 * MiB);
    EXPECT_EQ(t.counts.copy_to_host_bytes, 4 * MiB);
    EXPECT_EQ(t.counts.plan_evict_bytes, 0U);
  }
}

TEST_F(executors, counts_no_prefetch_that_it_did_not_observe) {
  const graph g = small_network();
  const execution staged = execute(g, staged_throughout(g), {});
  EXPECT_EQ(staged.iterations.at(0).counts.prefetch_to_device_bytes, 0U);
  const execution managed = execute(g, managed_to_and_fro(g), {});
  EXPECT_FALSE(managed.iterations.at(0).counts.prefetch_to_device_bytes.has_value());
  EXPECT_FALSE(managed.iterations.at(0).counts.faults.has_value());
  EXPECT_GT(managed.iterations.at(0).counts.plan_evict_bytes.value_or(0), 0U);
}

TEST_F(executors, leaves_oversubscription_to_the_driver_only_if_allowed) {
  const graph g = small_network();
  const profile costs = workspaces_of(gpu(), g);
  const machine on;
  const byte_count need = lowered(g, costs, everything(g, residence::managed)).managed_arena_bytes;
  const execution_plan steps =
      lower({g, costs, on, need / 2, evictor::driver, {}}, everything(g, residence::managed));
  EXPECT_THROW(executor(gpu(), g, steps), unsupported);
}

// Below ratio 1: half of what the budget leaves would do.
TEST_F(executors, natively_a_ballast_leaves_what_the_budget_does) {
  cuda_options allowed = gpu().options();
  allowed.allow_native_oversubscription = true;
  session native(gpu().device(), allowed);
  const graph g = small_network();
  const profile costs = workspaces_of(native, g);
  const machine on;
  const execution_plan whole = lowered(g, costs, everything(g, residence::managed));
  const byte_count left = 2 * (whole.managed_arena_bytes + 64 * MiB);
  const byte_count budget = whole.device_arena_bytes + left;
  const execution_plan steps =
      lower({g, costs, on, budget, evictor::driver, {}}, everything(g, residence::managed));
  std::uint64_t digest = 0;
  {
    executor runs(native, g, steps);
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total));
    EXPECT_GE(free + 64 * MiB, left) << "others may take a little meanwhile";
    EXPECT_LE(free, left + 64 * MiB) << "the ballast holds the rest";
    digest = runs.run({.iterations = 2, .computes_digest = true}).digest.value();
  }
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  EXPECT_GT(free, left + 64 * MiB) << "it has gone with the executor";
  EXPECT_EQ(execute(g, everything(g, residence::device), {.iterations = 2, .computes_digest = true}).digest,
            digest);
}

// Only engines of libraries need workspace by choice; they are chosen again within less.
TEST_F(executors, refuses_workspaces_of_another_machine) {
  const graph g = small_network();
  profile costs = workspaces_of(gpu(), g);
  for (op_id o = 0; o < g.ops.size(); ++o) {
    if (has_kind<softmax_cross_entropy, softmax_cross_entropy_gradient>(g.ops[o])) {
      ASSERT_GT(costs[o].workspace_bytes, 0U);
      costs[o].workspace_bytes = 0;
    }
  }
  const execution_plan steps = lowered(g, costs, everything_on_device(g));
  EXPECT_THROW(executor(gpu(), g, steps), std::invalid_argument);
}

TEST_F(executors, keeps_whole_operators_to_the_workspace_of_the_plan) {
  const graph g = small_network();
  profile costs = workspaces_of(gpu(), g);
  int held_back = 0;
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const bool convolves = has_kind<convolution, convolution_backward_data>(g.ops[o]);
    if (!convolves || costs[o].workspace_bytes <= MiB) continue;
    costs[o].workspace_bytes = MiB;
    ++held_back;
  }
  ASSERT_GT(held_back, 0) << "or the test shows nothing";
  const execution_plan tight = lowered(g, costs, everything_on_device(g)),
                       roomy = lowered(g, workspaces_of(gpu(), g), everything_on_device(g));
  const double expected = executor(gpu(), g, roomy).run({}).loss.value();
  EXPECT_NEAR(executor(gpu(), g, tight).run({}).loss.value(), expected, 1e-4 * expected);
}

}  // namespace
}  // namespace um::gpu_tests
