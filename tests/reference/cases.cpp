#include "tests/reference/cases.hpp"

#include <optional>
#include <tuple>
#include <utility>

namespace um::reference {
namespace {

constexpr dims image{2, 4, 6, 6}, vector{1, 4, 1, 1}, pooled{2, 4, 3, 3}, filter{4, 4, 3, 3};
constexpr dims mean_of_image{2, 4, 1, 1}, matrix{5, 4, 6, 6}, logits{2, 5, 1, 1}, five{1, 5, 1, 1};
constexpr dims one{1, 1, 1, 1};
constexpr dims narrow_image{2, 3, 6, 6}, joined{2, 8, 6, 6}, joined_with_narrow{2, 11, 6, 6};

constexpr operand_of x{image}, y{pooled}, l{logits};
constexpr operand_of v{vector, kept::f32}, v5{five, kept::f32};
constexpr operand_of index{pooled, kept::fixed, dtype::u8};
constexpr operand_of labels{{2, 1, 1, 1}, kept::fixed, dtype::i32};
constexpr operand_of loss{one, kept::f32};
constexpr operand_of f{filter, kept::f32}, narrow_filter{filter, kept::fixed, dtype::bf16};
constexpr operand_of steps{one, kept::fixed, dtype::i32};
constexpr convolution plain{1, 1, 1, 1}, rectified{1, 1, 1, 1, true};
constexpr convolution of_two_groups{1, 1, 1, 1, false, 2}, depthwise{1, 1, 1, 1, false, 4};
constexpr max_pool pool{2, 2, 0}, pool_relu{2, 2, 0, true};

batch_norm_backward backward(bool relu, bool residual, bool two) {
  return {relu, residual, two};
}

opaque some_opaque() {
  opaque a{"gelu", 1000, 2000};
  a.in = a.out = {batch_cut::part};
  return a;
}

}  // namespace

std::vector<operator_case> operator_cases() {
  return {
      {plain, {x, {filter}}, {x}},
      {plain, {x, {filter}, v}, {x}},
      {rectified, {x, {filter}}, {x}},
      {rectified, {x, {filter}, v}, {x}},
      {convolution_backward_data{plain}, {{filter}, x}, {x}},
      {convolution_backward_filter{plain}, {x, x}, {{filter, kept::f32}}},
      {of_two_groups, {x, {{4, 2, 3, 3}}}, {x}},
      {depthwise, {x, {{4, 1, 3, 3}}}, {x}},
      {depthwise, {x, {{4, 1, 3, 3}}, v}, {x}},
      {convolution_backward_data{of_two_groups}, {{{4, 2, 3, 3}}, x}, {x}},
      {convolution_backward_filter{of_two_groups}, {x, x}, {{{4, 2, 3, 3}, kept::f32}}},
      {convolution_backward_filter{depthwise}, {x, x}, {{{4, 1, 3, 3}, kept::f32}}},
      {convolution{1, 2, 0, 1}, {x, {{4, 4, 1, 3}}}, {{{2, 4, 6, 3}}}},
      {bias_backward{}, {x}, {v}},
      {relu{}, {x}, {x}},
      {relu{true}, {x}, {x}},
      {relu_backward{}, {x, x}, {x}},
      {relu_backward{{true}}, {x, x}, {x}},
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
      {batch_norm{1e-5F, true, true}, {x, v, v}, {x, v, v}},
      {normalize{}, {x, v, v, v, v}, {x}},
      {normalize{true, true}, {x, v, v, v, v}, {x}},
      {normalize{true}, {x, v, v, v, v}, {x}},
      {normalize{true}, {x, v, v, v, v, x}, {x}},
      {backward(false, false, false), {x, v, v, v, v, x}, {x, v, v}},
      {backward(true, false, false), {x, v, v, v, v, x}, {x, v, v}},
      {backward(true, false, true), {x, v, v, v, v, x, x}, {x, v, v}},
      {batch_norm_backward{true, false, false, true}, {x, v, v, v, v, x}, {x, v, v}},
      {batch_norm_backward{true, true, false, true}, {x, v, v, v, v, x, x}, {x, v, v, x}},
      {backward(false, true, true), {x, v, v, v, v, x, x}, {x, v, v, x}},
      {backward(true, true, false), {x, v, v, v, v, x, x}, {x, v, v, x}},
      {backward(true, true, true), {x, v, v, v, v, x, x, x}, {x, v, v, x}},
      {add{}, {x, x}, {x}},
      {concat{}, {x, x}, {{joined}}},
      {concat{}, {x, {narrow_image}, x}, {{joined_with_narrow}}},
      {concat_backward{}, {{joined}}, {x, x}},
      {concat_backward{}, {{joined_with_narrow}}, {x, {narrow_image}, x}},
      {average_pool{}, {x}, {y}},
      {average_pool{3, 3, 2, 2, 1, 1, true}, {x}, {y}},
      {average_pool{3, 1, 3, 2, 0, 0}, {x}, {{{2, 4, 2, 3}}}},
      {average_pool_backward{}, {y}, {x}},
      {average_pool_backward{{3, 3, 2, 2, 1, 1, true}}, {y}, {x}},
      {average_pool_backward{{3, 3, 2, 2, 1, 1, false}}, {y}, {x}},
      {cast{}, {{image, kept::fixed}}, {{image, kept::fixed, dtype::bf16}}},
      {global_average_pool{}, {x}, {{mean_of_image}}},
      {global_average_pool_backward{}, {{mean_of_image}}, {x}},
      {softmax_cross_entropy{}, {l, labels}, {loss, l}},
      {softmax_cross_entropy_backward{}, {l, labels}, {l}},
      {softmax_cross_entropy_gradient{}, {l, labels}, {loss, l}},
      {sgd_update{}, {f, f}, {}, {0}},
      {optimizer_step{0}, {f, f, v, v}, {}, {0, 2}},
      {optimizer_step{1}, {f, f, f}, {}, {0, 2}},
      {optimizer_step{1}, {narrow_filter, f, f, f}, {}, {0, 2, 3}},
      {optimizer_step{2}, {f, f, f, f, v5, v5, v5, v5, steps}, {}, {0, 2, 3, 4, 6, 7, 8}},
      {optimizer_step{2}, {narrow_filter, f, f, f, f, v, v, v, v, steps}, {}, {0, 2, 3, 4, 5, 7, 8, 9}},
      {some_opaque(), {{image, kept::fixed}}, {{image, kept::fixed}}},
  };
}

graph graph_of(const operator_case& c) {
  graph g{"one", {}, {}};
  op o{"op", c.what, {}, {}, c.updated.empty(), std::nullopt};
  for (const auto& [operands, ids, use] :
       {std::tuple{&c.in, &o.in, role::input}, {&c.out, &o.out, role::output}}) {
    for (const operand_of& t : *operands) {
      ids->push_back(static_cast<tensor_id>(g.tensors.size()));
      const role vector = use == role::input ? role::parameter : role::parameter_gradient;
      const std::string name = "t" + std::to_string(g.tensors.size());
      g.tensors.push_back({name, t.shape, t.type, t.as == kept::f32 ? vector : use});
    }
  }
  for (const std::size_t i : c.updated) {
    o.out.push_back(o.in[i]);
    g.tensors[o.in[i]].role = i == 0 ? role::parameter : role::state;
  }
  g.ops.push_back(std::move(o));
  return g;
}

}  // namespace um::reference
