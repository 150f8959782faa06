#include "tests/cuda/operator_cases.hpp"

#include "tests/reference/cases.hpp"

namespace um::gpu_tests {
namespace {

tensor_id tensor_of(graph& g, const std::string& name, dims shape, role use, dtype type = dtype::f32) {
  g.tensors.push_back({name, shape, type, use});
  return static_cast<tensor_id>(g.tensors.size() - 1);
}
tensor_id input(graph& g, const std::string& name, dims shape) {
  return tensor_of(g, name, shape, role::input);
}
tensor_id output(graph& g, const std::string& name, dims shape) {
  return tensor_of(g, name, shape, role::output);
}
tensor_id vector_in(graph& g, const std::string& name, std::int64_t channels) {
  return tensor_of(g, name, {1, channels, 1, 1}, role::parameter);
}
tensor_id vector_out(graph& g, const std::string& name, std::int64_t channels) {
  return tensor_of(g, name, {1, channels, 1, 1}, role::parameter_gradient);
}

void apply(graph& g, op_attributes attributes, std::vector<tensor_id> in, std::vector<tensor_id> out,
           std::optional<may_alias> alias = {}) {
  const std::string name = std::string(kind_of(attributes)) + "_" + std::to_string(g.ops.size());
  g.ops.push_back({name, attributes, std::move(in), std::move(out), true, alias});
}

std::string text_of(const dims& d) {
  return std::to_string(d.n) + "x" + std::to_string(d.c) + "x" + std::to_string(d.h) + "x" +
         std::to_string(d.w);
}

operator_case linears(dims x, std::int64_t out) {
  const dims w{out, x.c, x.h, x.w}, y{x.n, out, 1, 1};
  operator_case c;
  c.name = "linear_" + text_of(x) + "_" + std::to_string(out);
  graph& g = c.g;
  const tensor_id tx = input(g, "x", x), tw = tensor_of(g, "w", w, role::parameter);
  const tensor_id b = vector_in(g, "b", out), dy = input(g, "dy", y);
  const auto gradient = [&](const std::string& name) {
    return tensor_of(g, name, w, role::parameter_gradient);
  };
  apply(g, linear{}, {tx, tw}, {output(g, "plain", y)});
  apply(g, linear{}, {tx, tw, b}, {output(g, "biased", y)});
  apply(g, linear{true}, {tx, tw, b}, {output(g, "rectified", y)});
  apply(g, linear_backward_data{}, {tw, dy}, {output(g, "dx", x)});
  apply(g, linear_backward_filter{}, {tx, dy}, {gradient("dw")});
  apply(g, linear_backward_filter{}, {tx, dy}, {gradient("dw_too"), vector_out(g, "db", out)});
  return c;
}

// With and without bias and ReLU; the gradient with and without a bias gradient.
operator_case pools(dims x, std::int64_t y_h, std::int64_t y_w, max_pool attributes) {
  operator_case c;
  c.name = "max_pool_" + text_of(x) + "_to_" + std::to_string(y_h) + "x" + std::to_string(y_w) + "_" +
           std::to_string(attributes.window) + "s" + std::to_string(attributes.stride) + "p" +
           std::to_string(attributes.pad);
  graph& g = c.g;
  const dims y{x.n, x.c, y_h, y_w};
  const dtype index_type = attributes.window <= 16 ? dtype::u8 : dtype::u16;
  const tensor_id tx = input(g, "x", x), dy = input(g, "dy", y), b = vector_in(g, "b", x.c);
  const tensor_id index = tensor_of(g, "index", y, role::output, index_type);
  const tensor_id index_too = tensor_of(g, "index_too", y, role::output, index_type);
  const tensor_id ty = output(g, "y", y), rectified = output(g, "rectified", y);
  max_pool with_relu = attributes;
  with_relu.relu = true;
  apply(g, attributes, {tx}, {ty, index});
  apply(g, with_relu, {tx, b}, {rectified, index_too});
  apply(g, max_pool_backward{attributes}, {dy, index}, {output(g, "dx", x)});
  apply(g, max_pool_backward{attributes}, {dy, index}, {output(g, "dx_too", x), vector_out(g, "db", x.c)});
  apply(g, max_pool_backward{with_relu}, {dy, index_too, rectified}, {output(g, "masked_dx", x)});
  apply(g, max_pool_backward{with_relu}, {dy, index_too, rectified},
        {output(g, "masked_dx_too", x), vector_out(g, "masked_db", x.c)});
  return c;
}

// Everything that treats elements one by one, and the sums beside it.
operator_case pointwise(dims x) {
  operator_case c;
  c.name = "pointwise_" + text_of(x);
  graph& g = c.g;
  const tensor_id a = input(g, "a", x), b = input(g, "b", x);
  const auto result = [&](const std::string& name) { return output(g, name, x); };
  apply(g, relu{}, {a}, {result("y")}, may_alias{0, 0});
  apply(g, relu_backward{}, {a, b}, {result("dx")}, may_alias{1, 0});
  apply(g, relu_bias_backward{}, {a, b}, {result("dx_too"), vector_out(g, "db", x.c)}, may_alias{1, 0});
  apply(g, bias_backward{}, {b}, {vector_out(g, "db_too", x.c)});
  apply(g, add{}, {a, b}, {result("sum")}, may_alias{0, 0});
  return c;
}

operator_case casts(dims x) {
  operator_case c;
  c.name = "cast_" + text_of(x);
  graph& g = c.g;
  const tensor_id wide = tensor_of(g, "wide", x, role::parameter);
  const tensor_id narrow = tensor_of(g, "narrow", x, role::output, dtype::bf16);
  apply(g, cast{}, {wide}, {narrow});
  apply(g, cast{}, {narrow}, {tensor_of(g, "wide_again", x, role::parameter_gradient)});
  return c;
}

// Training and given statistics, with and without residual and ReLU, and every gradient.
operator_case norms(dims x) {
  operator_case c;
  c.name = "batch_norm_" + text_of(x);
  graph& g = c.g;
  const tensor_id tx = input(g, "x", x), residual = input(g, "residual", x);
  const tensor_id dy = input(g, "dy", x), dy2 = input(g, "dy2", x);
  const tensor_id scale = vector_in(g, "scale", x.c), shift = vector_in(g, "shift", x.c);
  for (const bool rectified : {false, true}) {
    for (const bool residual_too : {false, true}) {
      const std::string suffix = std::string(rectified ? "_relu" : "") + (residual_too ? "_residual" : "");
      const auto result = [&](const std::string& name) { return output(g, name + suffix, x); };
      const auto vector = [&](const std::string& name) { return vector_out(g, name + suffix, x.c); };
      const tensor_id y = result("y"), mean = vector("mean"), inverse_deviation = vector("inverse_deviation");
      std::vector<tensor_id> in{tx, scale, shift};
      if (residual_too) in.push_back(residual);
      apply(g, batch_norm{1e-5F, rectified}, in, {y, mean, inverse_deviation});
      in.insert(in.begin() + 3, {mean, inverse_deviation});
      apply(g, normalize{rectified}, in, {result("again")});
      for (const bool two : {false, true}) {
        const std::string of = two ? "_of_two" : "";
        std::vector<tensor_id> read{tx, scale, shift, mean, inverse_deviation, dy};
        if (two) read.push_back(dy2);
        if (rectified && residual_too) read.push_back(y);
        std::vector<tensor_id> written{result("dx" + of), vector("dscale" + of), vector("dshift" + of)};
        if (residual_too) written.push_back(result("dresidual" + of));
        apply(g, batch_norm_backward{rectified, residual_too, two}, read, written,
              may_alias{5, residual_too ? 3U : 0U});
      }
    }
  }
  return c;
}

operator_case averages(dims x) {
  operator_case c;
  c.name = "global_average_pool_" + text_of(x);
  graph& g = c.g;
  const dims y{x.n, x.c, 1, 1};
  apply(g, global_average_pool{}, {input(g, "x", x)}, {output(g, "y", y)});
  apply(g, global_average_pool_backward{}, {input(g, "dy", y)}, {output(g, "dx", x)});
  return c;
}

operator_case losses(std::int64_t batch, std::int64_t classes) {
  operator_case c;
  c.name = "softmax_" + std::to_string(batch) + "_" + std::to_string(classes);
  graph& g = c.g;
  const dims shape{batch, classes, 1, 1};
  const tensor_id logits = input(g, "logits", shape);
  const tensor_id labels = tensor_of(g, "labels", {batch, 1, 1, 1}, role::label, dtype::i32);
  const tensor_id p = output(g, "probabilities", shape);
  apply(g, softmax_cross_entropy{}, {logits, labels}, {output(g, "loss", {1, 1, 1, 1}), p});
  apply(g, softmax_cross_entropy_backward{}, {p, labels}, {output(g, "dlogits", shape)});
  apply(g, softmax_cross_entropy_gradient{}, {logits, labels},
        {output(g, "loss_too", {1, 1, 1, 1}), output(g, "dlogits_too", shape)}, may_alias{0, 1});
  return c;
}

// Forward with bias and ReLU and without, and both gradients, from independent inputs.
operator_case convolutions(dims x, std::int64_t filters, dims kernel, const convolution& attributes) {
  const auto reach = [](std::int64_t extent, std::int64_t taps, std::int64_t stride, std::int64_t pad) {
    return (extent + 2 * pad - taps) / stride + 1;
  };
  const dims w{filters, x.c / attributes.groups, kernel.h, kernel.w};
  const dims y{x.n, filters, reach(x.h, kernel.h, attributes.stride_h, attributes.pad_h),
               reach(x.w, kernel.w, attributes.stride_w, attributes.pad_w)};
  operator_case c;
  c.name = "convolution_" + text_of(x) + "_w" + text_of(w) + "_s" + std::to_string(attributes.stride_h) +
           "_g" + std::to_string(attributes.groups);
  graph& g = c.g;
  const tensor_id tx = input(g, "x", x), tw = tensor_of(g, "w", w, role::parameter);
  const tensor_id b = vector_in(g, "b", filters), dy = input(g, "dy", y);
  convolution rectified = attributes;
  rectified.relu = true;
  apply(g, attributes, {tx, tw}, {output(g, "plain", y)});
  apply(g, attributes, {tx, tw, b}, {output(g, "biased", y)});
  apply(g, rectified, {tx, tw, b}, {output(g, "rectified", y)});
  apply(g, convolution_backward_data{attributes}, {tw, dy}, {output(g, "dx", x)});
  apply(g, convolution_backward_filter{attributes}, {tx, dy},
        {tensor_of(g, "dw", w, role::parameter_gradient)});
  return c;
}

operator_case convolutions(dims x, std::int64_t filters, std::int64_t kernel, std::int32_t stride,
                           std::int32_t pad) {
  return convolutions(x, filters, {1, 1, kernel, kernel}, convolution{stride, stride, pad, pad});
}

convolution in_groups(std::int32_t groups, std::int32_t stride, std::int32_t pad) {
  convolution attributes{stride, stride, pad, pad};
  attributes.groups = groups;
  return attributes;
}

// ReLUs capped at 6, of values up to 8 and, scaled, beyond: as an operator and in normalisations.
operator_case relu6_of(dims x) {
  operator_case c;
  c.name = "capped_" + text_of(x);
  graph& g = c.g;
  tensor_id wide = input(g, "x", x);
  for (const char* name : {"twice", "four_times", "eight_times"}) {
    const tensor_id sum = output(g, name, x);
    apply(g, add{}, {wide, wide}, {sum});
    wide = sum;
  }
  const tensor_id dy = input(g, "dy", x), residual = input(g, "residual", x), y = output(g, "y", x);
  apply(g, relu{true}, {wide}, {y});
  apply(g, relu_backward{{true}}, {y, dy}, {output(g, "dx", x)});
  const tensor_id scale = vector_in(g, "scale", x.c), shift = vector_in(g, "shift", x.c);
  const tensor_id mean = vector_in(g, "mean", x.c), deviation = vector_in(g, "deviation", x.c);
  const tensor_id plain = output(g, "normalized", x), summed = output(g, "summed", x);
  const auto vector = [&](const char* name) { return vector_out(g, name, x.c); };
  apply(g, normalize{true, true}, {wide, scale, shift, mean, deviation}, {plain});
  apply(g, normalize{true, true}, {wide, scale, shift, mean, deviation, residual}, {summed});
  apply(g, batch_norm_backward{true, false, false, true}, {wide, scale, shift, mean, deviation, dy},
        {output(g, "dx_of_one", x), vector("dscale"), vector("dshift")});
  apply(g, batch_norm_backward{true, true, false, true}, {wide, scale, shift, mean, deviation, dy, summed},
        {output(g, "dx_of_two", x), vector("dscale_too"), vector("dshift_too"), output(g, "dresidual", x)});
  return c;
}

operator_case average_pools(dims x, std::int64_t y_h, std::int64_t y_w, const average_pool& attributes) {
  operator_case c;
  c.name = "average_pool_" + text_of(x) + "_to_" + std::to_string(y_h) + "x" + std::to_string(y_w);
  graph& g = c.g;
  const dims y{x.n, x.c, y_h, y_w};
  apply(g, attributes, {input(g, "x", x)}, {output(g, "y", y)});
  apply(g, average_pool_backward{attributes}, {input(g, "dy", y)}, {output(g, "dx", x)});
  return c;
}

operator_case concats(dims shape, const std::vector<std::int64_t>& channels) {
  operator_case c;
  graph& g = c.g;
  std::vector<tensor_id> parts, gradients;
  shape.c = 0;
  for (const std::int64_t count : channels) {
    const std::string number = std::to_string(parts.size());
    const dims part{shape.n, count, shape.h, shape.w};
    parts.push_back(input(g, "x" + number, part));
    gradients.push_back(output(g, "dx" + number, part));
    shape.c += count;
  }
  c.name = "concat_" + text_of(shape) + "_of_" + std::to_string(channels.size());
  apply(g, concat{}, parts, {output(g, "y", shape)});
  apply(g, concat_backward{}, {input(g, "dy", shape)}, gradients);
  return c;
}

bool multiplies(const op_attributes& attributes) {
  return std::visit(
      []<class Kind>(const Kind&) {
        return Kind::kind.starts_with("convolution") || Kind::kind.starts_with("linear");
      },
      attributes.value);
}

// The rows that every kind of operator has (tests/reference/cases.hpp); opaque ones have no values.
std::vector<operator_case> of_every_kind(bool of_libraries) {
  std::vector<operator_case> all;
  for (const reference::operator_case& c : reference::operator_cases()) {
    const std::string name = std::string(kind_of(c.what)) + "_" + std::to_string(all.size());
    if (multiplies(c.what) == of_libraries && !std::holds_alternative<opaque>(c.what.value))
      all.push_back({name, reference::graph_of(c)});
  }
  return all;
}

operator_group libraries(const std::string& name, std::vector<operator_case> cases) {
  return {name, std::move(cases), true};
}
operator_group ours(const std::string& name, std::vector<operator_case> cases) {
  return {name, std::move(cases), false};
}

}  // namespace

std::vector<operator_group> operator_groups() {
  return {
      libraries("convolutions",
                {convolutions({3, 5, 17, 13}, 7, 3, 1, 1), convolutions({4, 3, 67, 67}, 16, 11, 4, 2),
                 convolutions({2, 3, 31, 19}, 16, 11, 4, 2), convolutions({5, 16, 15, 15}, 24, 5, 1, 2),
                 convolutions({2, 6, 9, 12}, 10, 1, 1, 0), convolutions({3, 8, 20, 11}, 16, 3, 2, 1),
                 convolutions({4, 64, 28, 28}, 64, 3, 1, 1), convolutions({2, 256, 14, 14}, 128, 3, 1, 1)}),
      libraries("convolutions_in_groups",
                {convolutions({3, 16, 15, 13}, 16, {1, 1, 3, 3}, in_groups(16, 1, 1)),
                 convolutions({3, 96, 17, 17}, 96, {1, 1, 3, 3}, in_groups(96, 2, 1)),
                 convolutions({2, 12, 9, 11}, 24, {1, 1, 5, 5}, in_groups(12, 1, 2)),
                 convolutions({2, 32, 14, 14}, 64, {1, 1, 3, 3}, in_groups(4, 1, 1)),
                 convolutions({4, 7, 21, 10}, 7, {1, 1, 3, 3}, in_groups(7, 2, 1))}),
      libraries("rectangular_convolutions",
                {convolutions({3, 8, 17, 13}, 16, {1, 1, 1, 7}, {1, 1, 0, 3}),
                 convolutions({3, 8, 17, 13}, 16, {1, 1, 7, 1}, {1, 1, 3, 0}),
                 convolutions({2, 16, 19, 12}, 8, {1, 1, 3, 5}, {2, 1, 1, 2}),
                 convolutions({2, 16, 12, 19}, 16, {1, 1, 3, 1}, {1, 2, 1, 0, false, 16})}),
      libraries("products_of_every_kind", of_every_kind(true)),
      ours("every_kind", of_every_kind(false)),
      ours("capped", {relu6_of({3, 5, 7, 11}), relu6_of({2, 64, 9, 8})}),
      ours("average_pools", {average_pools({2, 64, 14, 14}, 7, 7, {2, 2, 2, 2}),
                             average_pools({3, 5, 13, 9}, 7, 5, {3, 3, 2, 2, 1, 1, true}),
                             average_pools({3, 5, 13, 9}, 7, 5, {3, 3, 2, 2, 1, 1, false}),
                             average_pools({2, 24, 9, 12}, 9, 12, {3, 3, 1, 1, 1, 1, true}),
                             average_pools({2, 8, 10, 11}, 5, 6, {2, 2, 2, 2, 0, 0, true}),  // overhanging
                             average_pools({2, 8, 17, 17}, 5, 5, {5, 5, 3, 3})}),
      ours("concats", {concats({2, 0, 7, 7}, {3, 5}), concats({3, 0, 8, 8}, {64, 32, 32, 32}),
                       concats({2, 0, 5, 3}, {1, 2, 3, 4, 5, 6, 7}), concats({6, 0, 1, 1}, {10, 20})}),
      libraries("linears",
                {linears({5, 7, 3, 3}, 11), linears({8, 256, 6, 6}, 512), linears({3, 1000, 1, 1}, 10)}),
      ours("pools", {pools({3, 5, 12, 16}, 6, 8, {2, 2, 0}), pools({2, 16, 12, 18}, 6, 9, {2, 2, 0}),
                     pools({3, 2, 11, 7}, 6, 4, {2, 2, 0}),  // overhanging windows, clipped
                     pools({3, 8, 11, 7}, 6, 4, {2, 2, 0}),
                     pools({3, 8, 11, 7}, 5, 3, {2, 2, 0}),  // a row and a column that no window covers
                     pools({2, 4, 13, 13}, 6, 6, {3, 2, 0}), pools({3, 24, 13, 13}, 6, 6, {3, 2, 0}),
                     pools({2, 3, 14, 10}, 7, 5, {3, 2, 1}), pools({2, 64, 35, 21}, 18, 11, {3, 2, 1}),
                     pools({2, 8, 14, 14}, 7, 7, {3, 2, 0}),  // overhanging
                     pools({2, 2048, 6, 6}, 3, 3, {3, 2, 1}), pools({2, 2, 40, 40}, 2, 2, {20, 20, 0}),
                     pools({2, 8, 21, 20}, 11, 10, {5, 2, 2}), pools({2, 8, 9, 12}, 8, 11, {2, 1, 0}),
                     pools({2, 3, 9, 12}, 3, 4, {3, 3, 0})}),
      ours("large_pools",
           {pools({4, 64, 56, 56}, 28, 28, {3, 2, 1}), pools({4, 64, 56, 56}, 28, 28, {2, 2, 0})}),
      ours("pointwise", {pointwise({3, 5, 7, 11}), pointwise({6, 16, 32, 32}), pointwise({2, 40, 9, 9}),
                         pointwise({1, 1, 64, 48}), pointwise({70, 1000, 1, 1}), casts({7, 5, 3, 3}),
                         casts({64, 64, 3, 3})}),
      ours("large_pointwise", {pointwise({3, 2048, 7, 7}), pointwise({16, 64, 56, 56})}),
      ours("norms", {norms({4, 3, 17, 13}), norms({6, 16, 12, 12}), norms({2, 64, 28, 28}),
                     norms({5, 40, 9, 9}), norms({37, 10, 1, 1})}),
      ours("large_norms", {norms({2, 2048, 7, 7}), norms({8, 256, 14, 14})}),
      ours("averages", {averages({3, 5, 7, 7}), averages({4, 2048, 7, 7}), averages({2, 64, 8, 9}),
                        averages({2, 24, 1, 1})}),
      ours("losses", {losses(6, 1000), losses(3, 7)}),
  };
}

std::string name_of(const storage& s) {
  return std::string(to_text(s.arithmetic)) + "_" + std::string(to_text(s.order));
}

}  // namespace um::gpu_tests
