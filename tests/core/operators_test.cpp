// Every operator that is well formed, and what breaks it: an operand less or more, another extent,
// element type or memory order.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "core/graph.hpp"

namespace um {
namespace {

enum class kept : std::uint8_t {
  alike,  // f32, or bf16 together with the others that are alike
  f32,
  fixed,  // labels and indices
};

struct operand_of {
  dims shape;
  kept as = kept::alike;
  dtype type = dtype::f32;
};

struct operator_case {
  op_attributes what;
  std::vector<operand_of> in, out;
};

constexpr dims image{2, 4, 6, 6}, vector{1, 4, 1, 1}, pooled{2, 4, 3, 3}, filter{4, 4, 3, 3};
constexpr dims mean_of_image{2, 4, 1, 1}, matrix{5, 4, 6, 6}, logits{2, 5, 1, 1}, five{1, 5, 1, 1};
constexpr dims one{1, 1, 1, 1};

constexpr operand_of x{image}, y{pooled}, l{logits};
constexpr operand_of v{vector, kept::f32}, v5{five, kept::f32};
constexpr operand_of index{pooled, kept::fixed, dtype::u8};
constexpr operand_of labels{{2, 1, 1, 1}, kept::fixed, dtype::i32};
constexpr operand_of loss{one, kept::f32};
constexpr convolution plain{1, 1, 1, 1}, rectified{1, 1, 1, 1, true};
constexpr max_pool pool{2, 2, 0}, pool_relu{2, 2, 0, true};

batch_norm_backward backward(bool relu, bool residual, bool two) {
  return {relu, residual, two};
}

std::vector<operator_case> operators() {
  return {
      {plain, {x, {filter}}, {x}},
      {plain, {x, {filter}, v}, {x}},
      {rectified, {x, {filter}}, {x}},
      {rectified, {x, {filter}, v}, {x}},
      {convolution_backward_data{plain}, {{filter}, x}, {x}},
      {convolution_backward_filter{plain}, {x, x}, {{filter, kept::f32}}},
      {bias_backward{}, {x}, {v}},
      {relu{}, {x}, {x}},
      {relu_backward{}, {x, x}, {x}},
      {relu_bias_backward{}, {x, x}, {x, v}},
      {pool, {x}, {y, index}},
      {pool_relu, {x, v}, {y, index}},
      {max_pool_backward{pool}, {y, index}, {x}},
      {max_pool_backward{pool}, {y, index}, {x, v}},
      {max_pool_backward{pool_relu}, {y, index, y}, {x}},
      {max_pool_backward{pool_relu}, {y, index, y}, {x, v}},
      {linear{}, {x, {matrix}}, {l}},
      {linear{true}, {x, {matrix}}, {l}},
      {linear{true}, {x, {matrix}, v5}, {l}},
      {linear_backward_data{}, {{matrix}, l}, {x}},
      {linear_backward_filter{}, {x, l}, {{matrix, kept::f32}}},
      {linear_backward_filter{}, {x, l}, {{matrix, kept::f32}, v5}},
      {batch_norm{}, {x, v, v}, {x, v, v}},
      {batch_norm{1e-5F, true}, {x, v, v}, {x, v, v}},
      {batch_norm{1e-5F, true}, {x, v, v, x}, {x, v, v}},
      {normalize{}, {x, v, v, v, v}, {x}},
      {normalize{true}, {x, v, v, v, v}, {x}},
      {normalize{true}, {x, v, v, v, v, x}, {x}},
      {backward(false, false, false), {x, v, v, v, v, x}, {x, v, v}},
      {backward(true, false, false), {x, v, v, v, v, x}, {x, v, v}},
      {backward(true, false, true), {x, v, v, v, v, x, x}, {x, v, v}},
      {backward(false, true, true), {x, v, v, v, v, x, x}, {x, v, v, x}},
      {backward(true, true, false), {x, v, v, v, v, x, x}, {x, v, v, x}},
      {backward(true, true, true), {x, v, v, v, v, x, x, x}, {x, v, v, x}},
      {add{}, {x, x}, {x}},
      {global_average_pool{}, {x}, {{mean_of_image}}},
      {global_average_pool_backward{}, {{mean_of_image}}, {x}},
      {softmax_cross_entropy{}, {l, labels}, {loss, l}},
      {softmax_cross_entropy_backward{}, {l, labels}, {l}},
      {softmax_cross_entropy_gradient{}, {l, labels}, {loss, l}},
  };
}

graph graph_of(const operator_case& c) {
  graph g{"one", {}, {}};
  op o{"op", c.what, {}, {}, true, std::nullopt};
  for (const auto& [operands, ids, use] :
       {std::tuple{&c.in, &o.in, role::input}, {&c.out, &o.out, role::output}}) {
    for (const operand_of& t : *operands) {
      ids->push_back(static_cast<tensor_id>(g.tensors.size()));
      g.tensors.push_back({"t" + std::to_string(g.tensors.size()), t.shape, t.type, use});
    }
  }
  g.ops.push_back(std::move(o));
  return g;
}

std::vector<operand_of> all_of(const operator_case& c) {
  std::vector<operand_of> all = c.in;
  all.insert(all.end(), c.out.begin(), c.out.end());
  return all;
}

class Operator : public testing::TestWithParam<operator_case> {};

void expect_defect(const graph& g, const std::string& why) {
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
    const auto operands = all_of(GetParam());
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
    const bool other = std::ranges::any_of(operators(), [&](const operator_case& o) {
      return o.what == c.what && o.in.size() == c.in.size() && o.out.size() == c.out.size();
    });
    if (!other) expect_defect(graph_of(c), input ? "an input less" : "an output less");
  }
}

TEST_P(Operator, TakesNoOperandMore) {
  for (const bool input : {true, false}) {
    operator_case c = GetParam();
    (input ? c.in : c.out).push_back({image, kept::fixed, dtype::u16});
    expect_defect(graph_of(c), input ? "an input more" : "an output more");
  }
}

using extent = std::int64_t dims::*;

// Sums and means are over whatever is there.
bool is_summed_over(const op& o, std::size_t operand, extent along) {
  const bool plane = along == &dims::h || along == &dims::w;
  return (std::holds_alternative<bias_backward>(o.what) && operand == 0 && along != &dims::c) ||
         (std::holds_alternative<global_average_pool>(o.what) && operand == 0 && plane) ||
         (std::holds_alternative<global_average_pool_backward>(o.what) && operand == 1 && plane);
}

TEST_P(Operator, FitsNoOtherExtent) {
  for (std::size_t i = 0; i < all_of(GetParam()).size(); ++i) {
    for (const extent along : {&dims::n, &dims::c, &dims::h, &dims::w}) {
      graph g = graph_of(GetParam());
      g.tensors[i].shape.*along += 7;
      if (!is_summed_over(g.ops[0], i, along)) expect_defect(g, "operand " + std::to_string(i));
    }
  }
}

TEST_P(Operator, HoldsNoOtherType) {
  const auto operands = all_of(GetParam());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    graph g = graph_of(GetParam());
    g.tensors[i].type = operands[i].as == kept::fixed ? dtype::f32 : dtype::u16;
    expect_defect(g, "operand " + std::to_string(i));
    const auto alike = std::ranges::count(operands, kept::alike, &operand_of::as);
    if (operands[i].as == kept::fixed || (operands[i].as == kept::alike && alike == 1)) continue;
    g.tensors[i].type = dtype::bf16;
    expect_defect(g, "operand " + std::to_string(i) + " in bf16");
  }
}

TEST_P(Operator, LiesInOneOrder) {
  const auto operands = all_of(GetParam());
  const auto ordered = [](const operand_of& o) { return o.shape.c > 1 && o.shape.h * o.shape.w > 1; };
  const auto count = std::ranges::count_if(operands, ordered);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    graph g = graph_of(GetParam());
    g.tensors[i].order = memory_order::nhwc;
    if (ordered(operands[i]) && count > 1) {
      expect_defect(g, "operand " + std::to_string(i));
    } else {
      EXPECT_EQ(defect_of(g), std::nullopt) << "the order of operand " << i << " makes no difference";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Graph, Operator, testing::ValuesIn(operators()), [](const auto& which) {
  return std::string(kind_of(which.param.what)) + "_" + std::to_string(which.index);
});

TEST(Cast, IsBetweenFloatingTypes) {
  for (const dtype from : {dtype::f32, dtype::bf16}) {
    for (const dtype to : {dtype::f32, dtype::bf16}) {
      EXPECT_EQ(defect_of(graph_of({cast{}, {{image, kept::fixed, from}}, {{image, kept::fixed, to}}})),
                std::nullopt);
    }
  }
  expect_defect(graph_of({cast{}, {{image, kept::fixed, dtype::i32}}, {x}}), "from i32");
  expect_defect(graph_of({cast{}, {x}, {{image, kept::fixed, dtype::u8}}}), "to u8");
  expect_defect(graph_of({cast{}, {x}, {y}}), "to another shape");
}

TEST(BackwardProducts, HaveNoRelu) {
  expect_defect(graph_of({convolution_backward_data{rectified}, {{filter}, x}, {x}}), "data");
  expect_defect(graph_of({convolution_backward_filter{rectified}, {x, x}, {{filter, kept::f32}}}), "filter");
}

TEST(MaxPool, PadsByLessThanItsWindow) {
  const operand_of padded{{2, 4, 4, 4}}, where{{2, 4, 4, 4}, kept::fixed, dtype::u8};
  EXPECT_EQ(defect_of(graph_of({max_pool{2, 2, 1}, {x}, {padded, where}})), std::nullopt);
  expect_defect(graph_of({max_pool{2, 2, 2}, {x}, {padded, where}}), "a window of padding alone");
}

}  // namespace
}  // namespace um
