// Every operator that is well formed, and what breaks it: an operand less or more, another extent,
// element type or memory order.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/reference/cases.hpp"

namespace um {
namespace {

using reference::graph_of;
using reference::kept;
using reference::operand_of;
using reference::operator_case;

// Those that look at their operands: opaque ones take any, updates and casts have tests of their own.
std::vector<operator_case> well_formed() {
  std::vector<operator_case> all = reference::operator_cases();
  std::erase_if(all, [](const operator_case& c) {
    return !c.updated.empty() || std::holds_alternative<opaque>(c.what.value) ||
           std::holds_alternative<cast>(c.what.value);
  });
  return all;
}

std::vector<operand_of> operands_of(const operator_case& c) {
  std::vector<operand_of> all = c.in;
  all.insert(all.end(), c.out.begin(), c.out.end());
  return all;
}

constexpr dims image{2, 4, 6, 6}, filter{4, 4, 3, 3};
constexpr operand_of image_operand{image}, half_operand{{2, 4, 3, 3}};
constexpr convolution rectified{1, 1, 1, 1, true};

class Operator : public ::testing::TestWithParam<operator_case> {};

void expect_operator_defect(const graph& g, const std::string& why) {
  const auto defect = defect_of(g);
  ASSERT_TRUE(defect) << why;
  EXPECT_TRUE(defect->starts_with("operator op (")) << *defect;
  EXPECT_EQ(defect->find('\n'), std::string::npos) << *defect;
}

TEST_P(Operator, IsWellFormedInEitherTypeAndOrder) {
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    graph g = graph_of(GetParam());
    for (tensor& t : g.tensors) t.order = order;
    EXPECT_EQ(defect_of(g), std::nullopt);
    const auto operands = operands_of(GetParam());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].as == kept::alike) g.tensors[i].type = dtype::bf16;
    }
    EXPECT_EQ(defect_of(g), std::nullopt);
  }
}

TEST_P(Operator, TakesNoOperandLess) {
  for (const bool input : {true, false}) {
    operator_case c = GetParam();
    (input ? c.in : c.out).pop_back();
    // What is left may be the same operator without its bias or bias gradient.
    const bool other = std::ranges::any_of(well_formed(), [&](const operator_case& o) {
      return o.what == c.what && o.in.size() == c.in.size() && o.out.size() == c.out.size();
    });
    if (!other) expect_operator_defect(graph_of(c), input ? "an input less" : "an output less");
  }
}

TEST_P(Operator, TakesNoOperandMore) {
  for (const bool input : {true, false}) {
    operator_case c = GetParam();
    (input ? c.in : c.out).push_back({image, kept::fixed, dtype::u16});
    expect_operator_defect(graph_of(c), input ? "an input more" : "an output more");
  }
}

using extent = std::int64_t dims::*;

// Sums and means are over whatever is there.
bool is_summed_over(const op& o, std::size_t operand, extent along) {
  const bool plane = along == &dims::h || along == &dims::w;
  return (has_kind<bias_backward>(o) && operand == 0 && along != &dims::c) ||
         (has_kind<global_average_pool>(o) && operand == 0 && plane) ||
         (has_kind<global_average_pool_backward>(o) && operand == 1 && plane);
}

TEST_P(Operator, FitsNoOtherExtent) {
  for (std::size_t i = 0; i < operands_of(GetParam()).size(); ++i) {
    for (const extent along : {&dims::n, &dims::c, &dims::h, &dims::w}) {
      graph g = graph_of(GetParam());
      g.tensors[i].shape.*along += 7;
      if (!is_summed_over(g.ops[0], i, along)) expect_operator_defect(g, "operand " + std::to_string(i));
    }
  }
}

TEST_P(Operator, HoldsNoOtherType) {
  const auto operands = operands_of(GetParam());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    graph g = graph_of(GetParam());
    g.tensors[i].type = operands[i].as == kept::fixed ? dtype::f32 : dtype::u16;
    expect_operator_defect(g, "operand " + std::to_string(i));
    const auto alike = std::ranges::count(operands, kept::alike, &operand_of::as);
    if (operands[i].as == kept::fixed || (operands[i].as == kept::alike && alike == 1)) continue;
    g.tensors[i].type = dtype::bf16;
    expect_operator_defect(g, "operand " + std::to_string(i) + " in bf16");
  }
}

TEST_P(Operator, LiesInOneOrder) {
  const auto operands = operands_of(GetParam());
  const auto ordered = [](const operand_of& o) { return o.shape.c > 1 && o.shape.h * o.shape.w > 1; };
  const auto count = std::ranges::count_if(operands, ordered);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    graph g = graph_of(GetParam());
    g.tensors[i].order = memory_order::nhwc;
    if (ordered(operands[i]) && count > 1) {
      expect_operator_defect(g, "operand " + std::to_string(i));
    } else {
      EXPECT_EQ(defect_of(g), std::nullopt) << "the order of operand " << i << " makes no difference";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Graph, Operator, ::testing::ValuesIn(well_formed()), [](const auto& which) {
  return std::string(kind_of(which.param.what)) + "_" + std::to_string(which.index);
});

TEST(Cast, IsBetweenFloatingTypes) {
  for (const dtype from : {dtype::f32, dtype::bf16}) {
    for (const dtype to : {dtype::f32, dtype::bf16}) {
      EXPECT_EQ(defect_of(graph_of({cast{}, {{image, kept::fixed, from}}, {{image, kept::fixed, to}}})),
                std::nullopt);
    }
  }
  expect_operator_defect(graph_of({cast{}, {{image, kept::fixed, dtype::i32}}, {image_operand}}), "from i32");
  expect_operator_defect(graph_of({cast{}, {image_operand}, {{image, kept::fixed, dtype::u8}}}), "to u8");
  expect_operator_defect(graph_of({cast{}, {image_operand}, {half_operand}}), "to another shape");
}

TEST(BackwardProducts, HaveNoRelu) {
  expect_operator_defect(
      graph_of({convolution_backward_data{rectified}, {{filter}, image_operand}, {image_operand}}), "data");
  expect_operator_defect(
      graph_of(
          {convolution_backward_filter{rectified}, {image_operand, image_operand}, {{filter, kept::f32}}}),
      "filter");
}

TEST(MaxPool, PadsByLessThanItsWindow) {
  const operand_of padded{{2, 4, 4, 4}}, where{{2, 4, 4, 4}, kept::fixed, dtype::u8};
  EXPECT_EQ(defect_of(graph_of({max_pool{2, 2, 1}, {image_operand}, {padded, where}})), std::nullopt);
  expect_operator_defect(graph_of({max_pool{2, 2, 2}, {image_operand}, {padded, where}}),
                         "a window of padding alone");
}

}  // namespace
}  // namespace um
