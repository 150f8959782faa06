// ooc_cuDNN's calls on a GPU: every division, streamed from host memory, against everything on the device.
#include <algorithm>
#include <string>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "networks/catalogue.hpp"
#include "planners/ooc_stream.hpp"
#include "planners/planners.hpp"
#include "tests/cuda/elements.hpp"
#include "tests/cuda/gpu.hpp"

namespace um::gpu_tests {
namespace {

constexpr division divisions[] = {{3, 1, 1, 1}, {1, 3, 1, 1}, {1, 1, 2, 1},
                                  {1, 1, 1, 3}, {2, 3, 1, 1}, {2, 2, 2, 2}};

std::string name_of(const division& d) {
  return "n" + std::to_string(d.n) + " h" + std::to_string(d.h) + " xc" + std::to_string(d.xc) + " yc" +
         std::to_string(d.yc);
}

network_spec small_convolution(precision arithmetic, memory_order order) {
  network_spec spec{.name = "conv", .batch = 4};
  spec.knobs = {{"c", 32}, {"h", 24}, {"w", 24}, {"k", 48}, {"kernel", 3}, {"stride", 1}, {"pad", 1}};
  spec.arithmetic = arithmetic;
  spec.order = order;
  spec.fusion_mode = fusion::none;
  return spec;
}

// Divides every call into the parts of `d`, or fewer where it has fewer.
memory_plan divided_by(const graph& g, const division& d, bool joined, residence home) {
  std::vector<std::vector<ooc_step>> steps;
  for (const ooc_call& c : calls_of(g)) {
    const division most = most_parts(g, c);
    steps.push_back(steps_of(
        g, c,
        {std::min(d.n, most.n), std::min(d.h, most.h), std::min(d.xc, most.xc), std::min(d.yc, most.yc)}));
  }
  return stream_calls(g, std::vector<residence>(g.tensors.size(), home), steps, joined);
}

class ooc_calls_on_gpu : public on_gpu {
 protected:
  void expect_as_whole(const network_spec& spec, double tolerance) {
    const graph g = build_network(spec);
    const bytes_by_tensor whole = run(gpu(), g, everything_on_device(g));
    for (const division& d : divisions) {
      for (const residence home : {residence::staged, residence::device}) {
        for (const bool joined : {true, false}) {
          const bytes_by_tensor out = run(gpu(), g, divided_by(g, d, joined, home));
          for (const auto& [id, bytes] : whole) {
            const tensor& t = g.tensors[id];
            if (!is_floating(t.type)) continue;
            const double error = relative_error(from_memory(t, out.at(id)), from_memory(t, bytes));
            EXPECT_LE(error, tolerance) << spec.name << " " << to_text(spec.arithmetic) << " " << name_of(d)
                                        << " " << t.name << (joined ? " joined" : "");
          }
        }
      }
    }
  }
};

TEST_F(ooc_calls_on_gpu, agree_with_the_whole_in_every_division) {
  expect_as_whole(small_convolution(precision::fp32, memory_order::nchw), 1e-5);
  expect_as_whole(small_convolution(precision::fp32, memory_order::nhwc), 1e-5);
  expect_as_whole(small_convolution(precision::tf32, memory_order::nhwc), 3e-3);
  expect_as_whole(small_convolution(precision::bf16, memory_order::nhwc), 2e-2);
}

// Convolution with bias, ReLU and pool in one division, and their gradients. Rounding tips a few ReLUs.
TEST_F(ooc_calls_on_gpu, agree_where_several_operators_are_fused) {
  network_spec spec{.name = "vgg11", .batch = 4, .knobs = {{"insize", 32}}};
  spec.order = memory_order::nchw;
  for (const fusion joined : {fusion::none, fusion::fused}) {
    spec.fusion_mode = joined;
    expect_as_whole(spec, 1e-3);
  }
}

// As the strategy plans it, from what the GPU says that operators take.
TEST_F(ooc_calls_on_gpu, agree_as_planned) {
  network_spec spec{.name = "vgg11", .batch = 16, .knobs = {{"insize", 64}}};
  spec.fusion_mode = fusion::none;
  const graph g = build_network(spec);
  const auto by = open_cuda(gpu().device(), gpu().options());
  const profile costs = by->measure_operators(g);
  const machine on = by->describe();
  const bytes_by_tensor whole = run(gpu(), g, everything_on_device(g));
  for (const std::int64_t keep : {0, 1}) {
    const problem p{g,
                    costs,
                    on,
                    footprint_of(g, costs).total / 3,
                    pressure::none,
                    {{"keep", keep}, {"share", 80}},
                    slice_cost_function(*by, g)};
    const memory_plan plan = plan_ooc_cudnn(p);
    EXPECT_NE(plan, plan_resident(p));
    const bytes_by_tensor out = run(gpu(), g, plan);
    for (const auto& [id, bytes] : whole) {
      const tensor& t = g.tensors[id];
      if (!is_floating(t.type)) continue;
      EXPECT_LE(relative_error(from_memory(t, out.at(id)), from_memory(t, bytes)), 1e-3)
          << t.name << " " << keep;
    }
  }
}

}  // namespace
}  // namespace um::gpu_tests
