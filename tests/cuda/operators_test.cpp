// Every operator on a GPU against double precision, in every type and memory order, on shapes that
// divide evenly and on others: whole, cut along every axis and along several, in place, and at odd addresses.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "networks/passes.hpp"
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
  static std::size_t expect_right(const calling& options) {
    std::size_t ran = 0;
    for (const operator_case& c : it().of.cases) {
      if (takes_long(options.cut, c)) continue;
      const graph g = with_storage_format(c.g, it().in.arithmetic, it().in.order);
      ran += expect_operators_right(gpu(), g, *values_for(c, g), options, tolerance_of(it().in.arithmetic),
                                    c.name);
    }
    return ran;
  }
  // Convolutions and products take the reference long: their values are worked out once for each type.
  static std::shared_ptr<const reference_values> values_for(const operator_case& c, const graph& g) {
    static std::map<std::pair<std::string, bool>, std::shared_ptr<const reference_values>> known;
    const bool narrow = g.arithmetic == precision::bf16;
    const auto found = known.find({c.name, narrow});
    if (found != known.end()) return found->second;
    const auto made = std::make_shared<const reference_values>(reference_values_of(g));
    if (it().of.of_libraries) known[{c.name, narrow}] = made;
    return made;
  }
  // Engines are chosen for every shape that parts have.
  static bool takes_long(const cutting& cut, const operator_case& c) {
    constexpr std::int64_t most = 20'000;
    const bool other_axes = cut.channel > 1 || cut.row > 1 || cut.reduction > 1;
    return it().of.of_libraries && other_axes && element_count(c.g.tensors.at(0).shape) > most;
  }
  static void expect_right(std::initializer_list<cutting> cuts) {
    std::size_t ran = 0;
    for (const cutting& c : cuts) ran += expect_right(calling{c});
    if (ran == 0) GTEST_SKIP() << "nothing here can be cut so";
  }
};

TEST_P(operators, agree_with_double_precision) {
  expect_right(calling{});
}

TEST_P(operators, agree_cut_along_the_batch) {
  expect_right({{.batch = 2}, {.batch = 3}});
}

TEST_P(operators, agree_cut_along_channels) {
  expect_right({{.channel = 3}});
}

TEST_P(operators, agree_cut_along_rows) {
  expect_right({{.row = 4}});
}

TEST_P(operators, agree_cut_along_what_is_summed) {
  expect_right({{.reduction = 3}});
}

TEST_P(operators, agree_cut_along_two_axes) {
  expect_right({{.batch = 2, .row = 3}, {.channel = 2, .row = 2}});
}

TEST_P(operators, agree_cut_along_several_axes_and_what_is_summed) {
  expect_right({{.batch = 2, .channel = 2, .row = 2, .reduction = 2}});
}

TEST_P(operators, take_the_place_of_their_inputs) {
  expect_right(calling{{}, true, false});
}

// The libraries' engines are chosen for 16 or 4 bytes; umbench's kernels take any element's address.
TEST_P(operators, take_any_alignment_of_their_elements) {
  if (it().of.of_libraries && it().in.arithmetic == precision::bf16) GTEST_SKIP() << "engines take 4 bytes";
  expect_right(calling{{}, false, true});
}

INSTANTIATE_TEST_SUITE_P(every, operators, ::testing::Range<std::size_t>(0, settings().size()),
                         [](const auto& of) { return name_of(settings()[of.param]); });

}  // namespace
}  // namespace um::gpu_tests
