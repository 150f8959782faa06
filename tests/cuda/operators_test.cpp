// Every operator on a GPU against double precision, in every type and memory order, on shapes that
// divide evenly and on others: whole, cut into batch slices, in place, and at odd addresses.
#include <gtest/gtest.h>

#include "core/lower.hpp"
#include "networks/storage.hpp"
#include "tests/cuda/gpu.hpp"
#include "tests/cuda/one_operator.hpp"
#include "tests/cuda/operator_cases.hpp"

namespace um::gpu_tests {
namespace {

// Products of f32 sum up in other orders than the reference's; TF32 keeps 11 bits of an operand; a
// bf16 result is off by up to 2^-9, 2^-10.8 in the mean square.
double tolerance_of(precision arithmetic) {
  if (arithmetic == precision::fp32) return 1e-5;
  return arithmetic == precision::tf32 ? 1e-3 : 4e-3;
}

// A group of operators in one type and memory order.
struct setting {
  operator_group of;
  storage in;
};

std::string name_of(const setting& s) {
  return s.of.name + "_" + name_of(s.in);
}

const std::vector<setting>& settings() {
  static const std::vector<setting> all = [] {
    std::vector<setting> of_every_group;
    for (const operator_group& group : operator_groups()) {
      for (const precision arithmetic : {precision::fp32, precision::tf32, precision::bf16}) {
        if (arithmetic == precision::tf32 && !group.of_libraries) continue;
        for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
          if (arithmetic == precision::bf16 && order == memory_order::nchw && group.of_libraries) continue;
          of_every_group.push_back({group, {arithmetic, order}});
        }
      }
    }
    return of_every_group;
  }();
  return all;
}

class operators : public on_gpu, public ::testing::WithParamInterface<std::size_t> {
 protected:
  static const setting& it() { return settings().at(GetParam()); }
  static void expect_right(const calling& how) {
    for (const operator_case& c : it().of.cases) {
      const graph g = stored(c.g, it().in.arithmetic, it().in.order);
      expect_operators_right(gpu(), g, how, tolerance_of(it().in.arithmetic), c.name);
    }
  }
};

TEST_P(operators, agree_with_double_precision) {
  expect_right({});
}

TEST_P(operators, sum_up_over_batch_slices) {
  for (const std::uint32_t parts : {2U, 3U}) expect_right({parts});
}

TEST_P(operators, take_the_place_of_their_inputs) {
  expect_right({1, true, false});
}

// The libraries' engines are chosen for 16 or 4 bytes; kernels of ours take any element's address.
TEST_P(operators, take_any_alignment_of_their_elements) {
  if (it().of.of_libraries && it().in.arithmetic == precision::bf16) GTEST_SKIP() << "engines take 4 bytes";
  expect_right({1, false, true});
}

INSTANTIATE_TEST_SUITE_P(every, operators, ::testing::Range<std::size_t>(0, settings().size()),
                         [](const auto& of) { return name_of(settings()[of.param]); });

TEST_F(on_gpu, refuses_cuts_along_other_axes) {
  graph g;
  g.tensors = {{"x", {2, 4, 4, 4}, dtype::f32, role::input}, {"y", {2, 4, 4, 4}, dtype::f32, role::output}};
  g.ops = {{"relu", relu{}, {0}, {1}, true, {}}};
  memory_plan plan = everything_on_device(g);
  plan.actions[0] = compute{0, {{}, {0, 2}, {}, {}}};
  plan.actions.insert(plan.actions.begin() + 1, compute{0, {{}, {2, 4}, {}, {}}});
  try {
    run(gpu(), g, plan);
    FAIL() << "a channel slice was accepted";
  } catch (const unsupported& reason) {
    EXPECT_NE(std::string(reason.what()).find("relu"), std::string::npos) << reason.what();
    EXPECT_NE(std::string(reason.what()).find("channel"), std::string::npos) << reason.what();
  }
}

}  // namespace
}  // namespace um::gpu_tests
