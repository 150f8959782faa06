// Every operator on a GPU against double precision, on shapes that do not divide evenly; cut into
// batch slices; and twice, for the same bits.
#include <iomanip>
#include <iostream>

#include "tests/cuda/gpu.hpp"

namespace um::gpu_tests {
namespace {

constexpr double tolerance = 1e-5;

struct operator_case {
  std::string name;
  graph g;
};

tensor_id add(graph& g, const std::string& name, dims shape, role use, dtype type = dtype::f32) {
  g.tensors.push_back({name, shape, type, use});
  return static_cast<tensor_id>(g.tensors.size() - 1);
}

void apply(graph& g, op_attributes what, std::vector<tensor_id> in, std::vector<tensor_id> out) {
  const std::string name{kind_of(what)};
  g.ops.push_back({name, what, std::move(in), std::move(out), true, {}});
}

// Forward with bias, and both gradients, from independent inputs.
operator_case convolutions(dims x, std::int64_t filters, std::int64_t kernel, std::int32_t stride,
                           std::int32_t pad) {
  const convolution how{stride, stride, pad, pad};
  const auto reach = [&](std::int64_t extent) { return (extent + 2 * pad - kernel) / stride + 1; };
  const dims w{filters, x.c, kernel, kernel}, y{x.n, filters, reach(x.h), reach(x.w)};
  operator_case c;
  c.name = "convolution_" + std::to_string(x.n) + "x" + std::to_string(x.c) + "x" + std::to_string(x.h) +
           "x" + std::to_string(x.w) + "_k" + std::to_string(filters) + "_" + std::to_string(kernel) + "s" +
           std::to_string(stride) + "p" + std::to_string(pad);
  graph& g = c.g;
  const tensor_id tx = add(g, "x", x, role::input), tw = add(g, "w", w, role::parameter);
  const tensor_id tb = add(g, "b", {1, filters, 1, 1}, role::parameter), ty = add(g, "y", y, role::output);
  const tensor_id given = add(g, "given_dy", y, role::input), dx = add(g, "dx", x, role::output);
  const tensor_id dw = add(g, "dw", w, role::parameter_gradient);
  const tensor_id db = add(g, "db", {1, filters, 1, 1}, role::parameter_gradient);
  apply(g, how, {tx, tw, tb}, {ty});
  apply(g, convolution_backward_data{how}, {tw, given}, {dx});
  apply(g, convolution_backward_filter{how}, {tx, given}, {dw});
  apply(g, bias_backward{}, {given}, {db});
  return c;
}

operator_case linears(dims x, std::int64_t out) {
  const dims w{out, x.c * x.h * x.w, 1, 1}, y{x.n, out, 1, 1};
  operator_case c;
  c.name = "linear_" + std::to_string(x.n) + "_" + std::to_string(w.c) + "_" + std::to_string(out);
  graph& g = c.g;
  const tensor_id tx = add(g, "x", x, role::input), tw = add(g, "w", w, role::parameter);
  const tensor_id tb = add(g, "b", {1, out, 1, 1}, role::parameter), ty = add(g, "y", y, role::output);
  const tensor_id plain = add(g, "y_without_bias", y, role::output);
  const tensor_id given = add(g, "given_dy", y, role::input), dx = add(g, "dx", x, role::output);
  const tensor_id dw = add(g, "dw", w, role::parameter_gradient);
  const tensor_id db = add(g, "db", {1, out, 1, 1}, role::parameter_gradient);
  apply(g, linear{}, {tx, tw, tb}, {ty});
  apply(g, linear{}, {tx, tw}, {plain});
  apply(g, linear_backward_data{}, {tw, given}, {dx});
  apply(g, linear_backward_filter{}, {tx, given}, {dw});
  apply(g, bias_backward{}, {given}, {db});
  return c;
}

operator_case pools(dims x, dims y, max_pool how) {
  operator_case c;
  c.name = "max_pool_" + std::to_string(x.h) + "x" + std::to_string(x.w) + "_" + std::to_string(how.window) +
           "s" + std::to_string(how.stride) + "p" + std::to_string(how.pad);
  graph& g = c.g;
  const dtype index_type = how.window * how.window <= 256 ? dtype::u8 : dtype::u16;
  const tensor_id tx = add(g, "x", x, role::input), ty = add(g, "y", y, role::output);
  const tensor_id index = add(g, "index", y, role::output, index_type);
  const tensor_id given = add(g, "given_dy", y, role::input), dx = add(g, "dx", x, role::output);
  apply(g, how, {tx}, {ty, index});
  apply(g, max_pool_backward{how}, {given, index}, {dx});
  return c;
}

operator_case relus(dims x) {
  operator_case c;
  c.name = "relu_" + std::to_string(elements(x));
  graph& g = c.g;
  const tensor_id tx = add(g, "x", x, role::input), ty = add(g, "y", x, role::output);
  const tensor_id given = add(g, "given_dy", x, role::input), dx = add(g, "dx", x, role::output);
  apply(g, relu{}, {tx}, {ty});
  apply(g, relu_backward{}, {ty, given}, {dx});
  return c;
}

operator_case losses(std::int64_t batch, std::int64_t classes) {
  operator_case c;
  c.name = "softmax_" + std::to_string(batch) + "_" + std::to_string(classes);
  graph& g = c.g;
  const dims shape{batch, classes, 1, 1};
  const tensor_id logits = add(g, "logits", shape, role::input);
  const tensor_id labels = add(g, "labels", {batch, 1, 1, 1}, role::label, dtype::i32);
  const tensor_id loss = add(g, "loss", {1, 1, 1, 1}, role::output);
  const tensor_id p = add(g, "probabilities", shape, role::output),
                  d = add(g, "dlogits", shape, role::output);
  apply(g, softmax_cross_entropy{}, {logits, labels}, {loss, p});
  apply(g, softmax_cross_entropy_backward{}, {p, labels}, {d});
  return c;
}

operator_case updates(dims w) {
  operator_case c;
  c.name = "sgd_" + std::to_string(elements(w));
  graph& g = c.g;
  const tensor_id tw = add(g, "w", w, role::parameter), dw = add(g, "given_dw", w, role::input);
  apply(g, sgd_update{0.25F}, {tw, dw}, {tw});
  g.ops.back().repeatable = false;
  g.ops.back().alias = may_alias{0, 0};
  return c;
}

std::vector<operator_case> cases() {
  return {convolutions({3, 5, 17, 13}, 7, 3, 1, 1),
          convolutions({4, 3, 67, 67}, 16, 11, 4, 2),
          convolutions({5, 16, 15, 15}, 24, 5, 1, 2),
          convolutions({2, 6, 9, 12}, 10, 1, 1, 0),
          convolutions({3, 8, 20, 11}, 9, 3, 2, 1),
          convolutions({4, 64, 28, 28}, 64, 3, 1, 1),
          convolutions({2, 256, 14, 14}, 128, 3, 1, 1),
          linears({5, 7, 3, 3}, 11),
          linears({8, 256, 6, 6}, 512),
          linears({3, 1000, 1, 1}, 10),
          pools({3, 5, 12, 16}, {3, 5, 6, 8}, {2, 2, 0}),
          pools({2, 4, 13, 13}, {2, 4, 6, 6}, {3, 2, 0}),
          pools({2, 3, 14, 10}, {2, 3, 7, 5}, {3, 2, 1}),
          pools({3, 2, 11, 7}, {3, 2, 6, 4}, {2, 2, 0}),  // overhanging windows, clipped
          pools({2, 2, 40, 40}, {2, 2, 2, 2}, {20, 20, 0}),
          relus({3, 5, 7, 11}),
          relus({6, 16, 32, 32}),
          losses(6, 1000),
          losses(3, 7),
          updates({7, 5, 3, 3}),
          updates({64, 128, 1, 1})};
}

class operators : public on_gpu, public ::testing::WithParamInterface<std::size_t> {
 protected:
  static const operator_case& it() {
    static const std::vector<operator_case> all = cases();
    return all.at(GetParam());
  }
};

void expect_close(const operator_case& c, const bytes_by_tensor& out, const std::string& how) {
  for (const auto& [name, error] : errors_against_reference(c.g, out)) {
    std::cout << "  " << c.name << ' ' << how << ' ' << name << ": " << std::scientific
              << std::setprecision(2) << error << '\n';
    EXPECT_LT(error, tolerance) << c.name << ' ' << how << ' ' << name;
    EXPECT_FALSE(std::isnan(error)) << c.name << ' ' << how << ' ' << name;
  }
}

TEST_P(operators, agree_with_double_precision) {
  ASSERT_EQ(defect_of(it().g), std::nullopt);
  expect_close(it(), run(gpu(), it().g, everything_on_device(it().g)), "whole");
}

TEST_P(operators, sum_up_over_batch_slices) {
  for (const std::uint32_t of : {2U, 3U}) {
    if (it().g.tensors[0].shape.n < static_cast<std::int64_t>(of)) continue;
    expect_close(it(), run(gpu(), it().g, cut_into(it().g, of)), "in " + std::to_string(of));
  }
}

TEST_P(operators, repeat_to_the_bit) {
  const auto first = run(gpu(), it().g, everything_on_device(it().g));
  EXPECT_EQ(first, run(gpu(), it().g, everything_on_device(it().g)));
}

INSTANTIATE_TEST_SUITE_P(every, operators, ::testing::Range<std::size_t>(0, cases().size()),
                         [](const auto& of) { return cases()[of.param].name; });

TEST_F(on_gpu, refuses_cuts_along_other_axes) {
  const operator_case c = relus({2, 4, 4, 4});
  memory_plan plan = everything_on_device(c.g);
  plan.actions[0] = compute{0, {axis::channel, 0, 2}};
  plan.actions.insert(plan.actions.begin() + 1, compute{0, {axis::channel, 1, 2}});
  try {
    run(gpu(), c.g, plan);
    FAIL() << "a channel slice was accepted";
  } catch (const unsupported& reason) {
    EXPECT_NE(std::string(reason.what()).find("relu"), std::string::npos) << reason.what();
    EXPECT_NE(std::string(reason.what()).find("channel"), std::string::npos) << reason.what();
  }
}

}  // namespace
}  // namespace um::gpu_tests
