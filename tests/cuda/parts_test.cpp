// Plans that cut a network's operators along every axis: the same values as whole, wherever tensors live and
// however they are moved.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "networks/catalogue.hpp"
#include "tests/cuda/elements.hpp"
#include "tests/cuda/gpu.hpp"
#include "tests/cuda/one_operator.hpp"

namespace um::gpu_tests {
namespace {

network_spec small_vgg(precision arithmetic, memory_order order, fusion joined) {
  network_spec spec{.name = "vgg11", .batch = 4, .knobs = {{"insize", 32}}};
  spec.arithmetic = arithmetic;
  spec.order = order;
  spec.fusion_mode = joined;
  return spec;
}

// What a part of an operator touches is fetched before it, and stored and given up after it.
void move_around(const graph& g, const compute& c, memory_plan& plan) {
  const std::vector<access> touched = accesses_of(g, g.ops[c.op], c.part);
  const auto part = [&](const access& a) { return box_of(g.tensors[a.tensor].shape, a.where); };
  std::vector<access> once;
  for (const access& a : touched) {
    const bool seen = std::ranges::any_of(
        once, [&](const access& other) { return other.tensor == a.tensor && other.where == a.where; });
    if (!seen) once.push_back(a);
    if (!seen && a.mode != access_mode::write) plan.actions.emplace_back(prefetch{a.tensor, part(a)});
  }
  plan.actions.emplace_back(c);
  for (const access& a : once) plan.actions.emplace_back(evict{a.tensor, part(a)});
}

// Every operator that can be cut so, the others whole.
memory_plan cut_by(const graph& g, const cutting& cuts, residence home, std::size_t& cut) {
  memory_plan plan;
  plan.residences.assign(g.tensors.size(), home);
  for (op_id o = 0; o < g.ops.size(); ++o) {
    std::vector<box> parts = parts_of(g, g.ops[o], cuts);
    if (parts.empty()) {
      parts = {box{}};
    } else {
      ++cut;
    }
    for (const box& part : parts) {
      const compute c{o, part};
      if (home == residence::staged) {
        move_around(g, c, plan);
      } else {
        plan.actions.emplace_back(c);
      }
    }
  }
  return plan;
}

struct tensor_format {
  precision arithmetic;
  memory_order order;
};
constexpr tensor_format tensor_formats[] = {{precision::fp32, memory_order::nchw},
                                            {precision::fp32, memory_order::nhwc},
                                            {precision::tf32, memory_order::nhwc},
                                            {precision::bf16, memory_order::nhwc}};

class parts_of_networks : public on_gpu {
 protected:
  // Floating tensors by name, of a network that is not cut; run once for each format.
  static const std::map<std::string, reference::values>& uncut(const tensor_format& format) {
    static std::map<std::pair<precision, memory_order>, std::map<std::string, reference::values>> known;
    const auto [at, is_new] = known.try_emplace({format.arithmetic, format.order});
    if (is_new) {
      const graph g = build_network(small_vgg(format.arithmetic, format.order, fusion::none));
      at->second = values_of(g, run(gpu(), g, everything_on_device(g)));
    }
    return at->second;
  }
  static std::map<std::string, reference::values> values_of(const graph& g, const bytes_by_tensor& all) {
    std::map<std::string, reference::values> values;
    for (const auto& [id, bytes] : all) {
      const tensor& t = g.tensors[id];
      if (is_floating(t.type)) values[t.name] = from_memory(t, bytes);
    }
    return values;
  }

  // In fp32 the values of the whole. In less, where rounding tips ReLUs and choices of pools, as near to
  // those of fp32 as the whole is.
  void expect_agreement(const tensor_format& format, const cutting& cut, residence home) {
    constexpr double summed_in_another_order = 1e-3, as_near = 1.5;
    const graph g = build_network(small_vgg(format.arithmetic, format.order, fusion::none));
    std::size_t count = 0;
    const memory_plan plan = cut_by(g, cut, home, count);
    ASSERT_GT(count, 0U) << name_of(cut);
    const bytes_by_tensor out = run(gpu(), g, plan);
    EXPECT_EQ(out, run(gpu(), g, plan)) << name_of(cut) << ": other bits a second time";
    const auto& whole = uncut(format);
    const auto& exact = uncut({precision::fp32, format.order});
    for (const auto& [name, values] : values_of(g, out)) {
      if (!exact.contains(name)) continue;  // a copy in another type
      const double error = relative_error(values, exact.at(name));
      const double bound = as_near * relative_error(whole.at(name), exact.at(name)) + summed_in_another_order;
      EXPECT_LE(error, bound) << to_text(format.arithmetic) << name_of(cut) << ": " << name;
      EXPECT_FALSE(std::isnan(error)) << to_text(format.arithmetic) << name_of(cut) << ": " << name;
    }
  }
};

constexpr cutting one_axis[] = {{.batch = 3}, {.channel = 3}, {.row = 3}, {.reduction = 2}};
constexpr cutting more_axes[] = {
    {.batch = 2, .row = 2}, {.channel = 2, .row = 2}, {.batch = 2, .channel = 2, .row = 2, .reduction = 2}};

TEST_F(parts_of_networks, agree_along_one_axis) {
  for (const tensor_format& format : tensor_formats) {
    for (const cutting& cut : one_axis) expect_agreement(format, cut, residence::device);
  }
}

TEST_F(parts_of_networks, agree_along_several_axes) {
  for (const cutting& cut : more_axes) expect_agreement(tensor_formats[0], cut, residence::device);
}

TEST_F(parts_of_networks, agree_where_every_part_is_moved) {
  for (const cutting& cut : one_axis) expect_agreement(tensor_formats[0], cut, residence::staged);
  for (const cutting& cut : one_axis) expect_agreement(tensor_formats[1], cut, residence::staged);
  for (const cutting& cut : more_axes) expect_agreement(tensor_formats[0], cut, residence::staged);
}

TEST_F(parts_of_networks, agree_where_kernels_reach_to_the_host) {
  for (const cutting& cut : one_axis) expect_agreement(tensor_formats[0], cut, residence::host);
}

// Timed once, for all callers; within less workspace the engine is one that needs less.
TEST_F(parts_of_networks, have_costs_that_are_kept) {
  const graph g = build_network(small_vgg(precision::fp32, memory_order::nchw, fusion::none));
  std::vector<compute> asked;
  for (op_id o = 0; o < g.ops.size(); ++o) {
    asked.push_back({o, {}});
    for (const cutting& cut : {cutting{.batch = 2}, cutting{.row = 2}}) {
      for (const box& part : parts_of(g, g.ops[o], cut)) asked.push_back({o, part});
    }
  }
  const std::vector<op_cost> costs = open_cuda(gpu().device(), gpu().options())->measure_operators(g, asked);
  const std::vector<op_cost> again = open_cuda(gpu().device(), gpu().options())->measure_operators(g, asked);
  ASSERT_EQ(costs.size(), asked.size());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    EXPECT_GT(costs[i].time, 0) << to_text(g, asked[i]);
    EXPECT_EQ(costs[i].time, again[i].time) << to_text(g, asked[i]);
    EXPECT_EQ(costs[i].engine, again[i].engine) << to_text(g, asked[i]);
    EXPECT_LE(costs[i].workspace_bytes, gpu().options().workspace_cap) << to_text(g, asked[i]);
  }
  int held_back = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!has_kind<convolution>(g.ops[asked[i].op]) || costs[i].workspace_bytes <= MiB) {
      continue;
    }
    const compute within{asked[i].op, asked[i].part, MiB};
    const op_cost less =
        open_cuda(gpu().device(), gpu().options())->measure_operators(g, {&within, 1}).front();
    EXPECT_LE(less.workspace_bytes, MiB) << to_text(g, within);
    ++held_back;
  }
  EXPECT_GT(held_back, 0) << "or the test shows nothing";
}

}  // namespace
}  // namespace um::gpu_tests
