#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "tests/reference/reference.hpp"

namespace um::reference {
namespace {

// What an operator gets: the values of its inputs and the shapes of all its operands.
struct arguments {
  const graph& g;
  const op& o;
  std::span<const values> in;

  const dims& in_shape(std::size_t i) const { return g.tensors[o.in[i]].shape; }
  const dims& out_shape(std::size_t i) const { return g.tensors[o.out[i]].shape; }
};

values zeros(const dims& shape) {
  return values(static_cast<std::size_t>(element_count(shape)));
}

std::size_t place(const dims& shape, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  return static_cast<std::size_t>(((n * shape.c + c) * shape.h + h) * shape.w + w);
}

void for_each(const dims& shape, const auto& visit) {
  for (std::int64_t n = 0; n < shape.n; ++n) {
    for (std::int64_t c = 0; c < shape.c; ++c) {
      for (std::int64_t h = 0; h < shape.h; ++h) {
        for (std::int64_t w = 0; w < shape.w; ++w) visit(n, c, h, w);
      }
    }
  }
}

// Visits every product of a convolution: the places in x, w and y of its three factors. What is
// multiplied into what tells the forward operator and the two backward ones apart.
void for_each_product(const convolution& a, const dims& x, const dims& w, const dims& y, const auto& visit) {
  for_each(y, [&](std::int64_t n, std::int64_t k, std::int64_t i, std::int64_t j) {
    for_each({1, w.c, w.h, w.w}, [&](std::int64_t, std::int64_t c, std::int64_t r, std::int64_t s) {
      const std::int64_t row = i * a.stride_h - a.pad_h + r;
      const std::int64_t column = j * a.stride_w - a.pad_w + s;
      if (row < 0 || row >= x.h || column < 0 || column >= x.w) return;
      const std::int64_t first = k / (w.n / a.groups) * w.c;  // channel of the group
      visit(place(x, n, first + c, row, column), place(w, k, c, r, s), place(y, n, k, i, j));
    });
  });
}

// The same for x [n, in], w [out, in], y [n, out].
void for_each_product(const dims& w, const dims& y, const auto& visit) {
  const std::int64_t in = w.c * w.h * w.w;
  for (std::int64_t n = 0; n < y.n; ++n) {
    for (std::int64_t k = 0; k < w.n; ++k) {
      for (std::int64_t c = 0; c < in; ++c) {
        visit(static_cast<std::size_t>(n * in + c), static_cast<std::size_t>(k * in + c),
              static_cast<std::size_t>(n * w.n + k));
      }
    }
  }
}

// y starts from the bias, if there is one.
values biases(const arguments& of) {
  const dims& shape = of.out_shape(0);
  values y = zeros(shape);
  if (of.in.size() < 3) return y;
  for_each(shape, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    y[place(shape, n, c, h, w)] = of.in[2][static_cast<std::size_t>(c)];
  });
  return y;
}

std::size_t as_index(double whole) {
  return static_cast<std::size_t>(std::llround(whole));
}

constexpr double cap = 6;

void rectify(values& y, bool relu6 = false) {
  for (double& value : y) {
    value = std::max(value, 0.0);
    if (relu6) value = std::min(value, cap);
  }
}

// Nothing passes where y is 0, or at its cap.
void mask(values& dy, const values& y, bool relu6 = false) {
  for (std::size_t i = 0; i < dy.size(); ++i) {
    if (!(y[i] > 0) || (relu6 && y[i] >= cap)) dy[i] = 0;
  }
}

values channel_sums(const values& of, const dims& shape) {
  values sums(static_cast<std::size_t>(shape.c));
  for_each(shape, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    sums[static_cast<std::size_t>(c)] += of[place(shape, n, c, h, w)];
  });
  return sums;
}

// Visits the place of every element together with its channel.
void for_each_element(const dims& shape, const auto& visit) {
  for_each(shape, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    visit(place(shape, n, c, h, w), static_cast<std::size_t>(c));
  });
}

values normalized(const values& x, const dims& shape, const values& mean, const values& inverse_deviation) {
  values result(x.size());
  for_each_element(
      shape, [&](std::size_t i, std::size_t c) { result[i] = (x[i] - mean[c]) * inverse_deviation[c]; });
  return result;
}

values scaled(values x, const dims& shape, const values& scale, const values& shift) {
  for_each_element(shape, [&](std::size_t i, std::size_t c) { x[i] = scale[c] * x[i] + shift[c]; });
  return x;
}

values added(values a, const values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

values channel_means(const values& of, const dims& shape) {
  values means = channel_sums(of, shape);
  for (double& mean : means) mean /= static_cast<double>(shape.n * shape.h * shape.w);
  return means;
}

// To the nearest number with 8 bits of mantissa, the even one of two.
double rounded_to_bf16(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8);
}

// --- the operators, one overload each ---

std::vector<values> apply(const convolution& what, const arguments& of) {
  values y = biases(of);
  for_each_product(what, of.in_shape(0), of.in_shape(1), of.out_shape(0),
                   [&](std::size_t x, std::size_t w, std::size_t at) { y[at] += of.in[0][x] * of.in[1][w]; });
  if (what.relu) rectify(y);
  return {std::move(y)};
}

std::vector<values> apply(const convolution_backward_data& what, const arguments& of) {
  values dx = zeros(of.out_shape(0));
  for_each_product(
      what.forward, of.out_shape(0), of.in_shape(0), of.in_shape(1),
      [&](std::size_t at, std::size_t w, std::size_t dy) { dx[at] += of.in[0][w] * of.in[1][dy]; });
  return {std::move(dx)};
}

std::vector<values> apply(const convolution_backward_filter& what, const arguments& of) {
  values dw = zeros(of.out_shape(0));
  for_each_product(
      what.forward, of.in_shape(0), of.out_shape(0), of.in_shape(1),
      [&](std::size_t x, std::size_t at, std::size_t dy) { dw[at] += of.in[0][x] * of.in[1][dy]; });
  return {std::move(dw)};
}

std::vector<values> apply(const bias_backward&, const arguments& of) {
  return {channel_sums(of.in[0], of.in_shape(0))};
}

std::vector<values> apply(const relu& what, const arguments& of) {
  values y = of.in[0];
  rectify(y, what.relu6);
  return {std::move(y)};
}

std::vector<values> apply(const relu_backward& what, const arguments& of) {
  values dx = of.in[1];
  mask(dx, of.in[0], what.forward.relu6);
  return {std::move(dx)};
}

std::vector<values> apply(const relu_bias_backward&, const arguments& of) {
  values dx = of.in[1];
  mask(dx, of.in[0]);
  values db = channel_sums(dx, of.out_shape(0));
  return {std::move(dx), std::move(db)};
}

std::vector<values> apply(const max_pool& what, const arguments& of) {
  const dims& x = of.in_shape(0);
  const dims& y = of.out_shape(0);
  values largest = zeros(y);
  values index = zeros(y);
  for_each(y, [&](std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) {
    const std::int64_t top = i * what.stride - what.pad;
    const std::int64_t left = j * what.stride - what.pad;
    const std::size_t at = place(y, n, c, i, j);
    bool found = false;
    for (std::int64_t h = std::max<std::int64_t>(top, 0); h < std::min(top + what.window, x.h); ++h) {
      for (std::int64_t w = std::max<std::int64_t>(left, 0); w < std::min(left + what.window, x.w); ++w) {
        const double value = of.in[0][place(x, n, c, h, w)];
        if (found && !(value > largest[at])) continue;
        found = true;
        largest[at] = value;
        index[at] = static_cast<double>((h - top) * what.window + (w - left));
      }
    }
  });
  if (what.relu) {
    for_each_element(y, [&](std::size_t at, std::size_t c) { largest[at] += of.in[1][c]; });
    rectify(largest);
  }
  return {std::move(largest), std::move(index)};
}

std::vector<values> apply(const max_pool_backward& what, const arguments& of) {
  const dims& y = of.in_shape(0);
  const dims& x = of.out_shape(0);
  const max_pool& pool = what.forward;
  values dy = of.in[0];
  if (pool.relu) mask(dy, of.in[2]);
  values dx = zeros(x);
  for_each(y, [&](std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) {
    const std::size_t at = place(y, n, c, i, j);
    const std::int64_t index = std::llround(of.in[1][at]);
    const std::int64_t h = i * pool.stride - pool.pad + index / pool.window;
    const std::int64_t w = j * pool.stride - pool.pad + index % pool.window;
    if (std::min(h, w) < 0 || h >= x.h || w >= x.w) throw std::out_of_range("an index of a window's outside");
    dx[place(x, n, c, h, w)] += dy[at];
  });
  std::vector<values> all{std::move(dx)};
  if (of.o.out.size() > 1) all.push_back(channel_sums(dy, y));
  return all;
}

// f(first element of the window, one behind the last, elements that count) along one axis.
void along_window(std::int64_t i, std::int64_t window, std::int64_t stride, std::int64_t pad,
                  std::int64_t extent, bool counts_padding, const auto& visit) {
  const std::int64_t begin = i * stride - pad;
  const std::int64_t first = std::max<std::int64_t>(begin, 0), end = std::min(begin + window, extent);
  visit(first, end, counts_padding ? std::min(begin + window, extent + pad) - begin : end - first);
}

// Visits every element of x under every window, with the window's place in y and its number of elements.
void for_each_averaged(const average_pool& a, const dims& x, const dims& y, const auto& visit) {
  for_each(y, [&](std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) {
    along_window(i, a.window_h, a.stride_h, a.pad_h, x.h, a.count_include_pad,
                 [&](auto top, auto bottom, auto rows) {
                   along_window(j, a.window_w, a.stride_w, a.pad_w, x.w, a.count_include_pad,
                                [&](auto left, auto right, auto columns) {
                                  for (std::int64_t h = top; h < bottom; ++h) {
                                    for (std::int64_t w = left; w < right; ++w) {
                                      visit(place(x, n, c, h, w), place(y, n, c, i, j),
                                            static_cast<double>(rows * columns));
                                    }
                                  }
                                });
                 });
  });
}

std::vector<values> apply(const average_pool& what, const arguments& of) {
  values y = zeros(of.out_shape(0));
  for_each_averaged(what, of.in_shape(0), of.out_shape(0),
                    [&](std::size_t x, std::size_t at, double count) { y[at] += of.in[0][x] / count; });
  return {std::move(y)};
}

std::vector<values> apply(const average_pool_backward& what, const arguments& of) {
  values dx = zeros(of.out_shape(0));
  for_each_averaged(what.forward, of.out_shape(0), of.in_shape(0),
                    [&](std::size_t at, std::size_t dy, double count) { dx[at] += of.in[0][dy] / count; });
  return {std::move(dx)};
}

// Visits the places of an element in the whole and in the part whose channels begin at `first`.
void for_each_joined(const dims& whole, const dims& part, std::int64_t first, const auto& visit) {
  for_each(part, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    visit(place(whole, n, first + c, h, w), place(part, n, c, h, w));
  });
}

std::vector<values> apply(const concat&, const arguments& of) {
  values y = zeros(of.out_shape(0));
  std::int64_t first = 0;
  for (std::size_t i = 0; i < of.in.size(); ++i) {
    for_each_joined(of.out_shape(0), of.in_shape(i), first,
                    [&](std::size_t whole, std::size_t part) { y[whole] = of.in[i][part]; });
    first += of.in_shape(i).c;
  }
  return {std::move(y)};
}

std::vector<values> apply(const concat_backward&, const arguments& of) {
  std::vector<values> all;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < of.o.out.size(); ++i) {
    all.push_back(zeros(of.out_shape(i)));
    for_each_joined(of.in_shape(0), of.out_shape(i), first,
                    [&](std::size_t whole, std::size_t part) { all[i][part] = of.in[0][whole]; });
    first += of.out_shape(i).c;
  }
  return all;
}

std::vector<values> apply(const linear& what, const arguments& of) {
  values y = biases(of);
  for_each_product(of.in_shape(1), of.out_shape(0),
                   [&](std::size_t x, std::size_t w, std::size_t at) { y[at] += of.in[0][x] * of.in[1][w]; });
  if (what.relu) rectify(y);
  return {std::move(y)};
}

std::vector<values> apply(const linear_backward_data&, const arguments& of) {
  values dx = zeros(of.out_shape(0));
  for_each_product(of.in_shape(0), of.in_shape(1), [&](std::size_t at, std::size_t w, std::size_t dy) {
    dx[at] += of.in[0][w] * of.in[1][dy];
  });
  return {std::move(dx)};
}

std::vector<values> apply(const linear_backward_filter&, const arguments& of) {
  values dw = zeros(of.out_shape(0));
  for_each_product(of.out_shape(0), of.in_shape(1), [&](std::size_t x, std::size_t at, std::size_t dy) {
    dw[at] += of.in[0][x] * of.in[1][dy];
  });
  std::vector<values> all{std::move(dw)};
  if (of.o.out.size() > 1) all.push_back(channel_sums(of.in[1], of.in_shape(1)));
  return all;
}

std::vector<values> apply(const batch_norm& what, const arguments& of) {
  const dims& shape = of.in_shape(0);
  const values& x = of.in[0];
  values mean = channel_means(x, shape);
  values squares(x.size());
  for_each_element(shape, [&](std::size_t i, std::size_t c) { squares[i] = std::pow(x[i] - mean[c], 2); });
  values inverse_deviation = channel_means(squares, shape);
  for (double& v : inverse_deviation) v = 1 / std::sqrt(v + double{what.epsilon});
  values y = scaled(normalized(x, shape, mean, inverse_deviation), shape, of.in[1], of.in[2]);
  if (of.in.size() > 3) y = added(std::move(y), of.in[3]);
  if (what.relu) rectify(y, what.relu6);
  return {std::move(y), std::move(mean), std::move(inverse_deviation)};
}

std::vector<values> apply(const normalize& what, const arguments& of) {
  const dims& shape = of.in_shape(0);
  values y = scaled(normalized(of.in[0], shape, of.in[3], of.in[4]), shape, of.in[1], of.in[2]);
  if (of.in.size() > 5) y = added(std::move(y), of.in[5]);
  if (what.relu) rectify(y, what.relu6);
  return {std::move(y)};
}

std::vector<values> apply(const batch_norm_backward& what, const arguments& of) {
  const dims& shape = of.in_shape(0);
  const values &scale = of.in[1], &inverse_deviation = of.in[4];
  const values unit = normalized(of.in[0], shape, of.in[3], inverse_deviation);
  values dy = what.two_gradients ? added(of.in[5], of.in[6]) : of.in[5];
  if (what.relu) mask(dy, what.residual ? of.in.back() : scaled(unit, shape, scale, of.in[2]), what.relu6);
  values products(dy.size());
  for (std::size_t i = 0; i < dy.size(); ++i) products[i] = dy[i] * unit[i];
  const values mean_dy = channel_means(dy, shape), mean_product = channel_means(products, shape);
  values dx(dy.size());
  for_each_element(shape, [&](std::size_t i, std::size_t c) {
    dx[i] = scale[c] * inverse_deviation[c] * (dy[i] - mean_dy[c] - unit[i] * mean_product[c]);
  });
  std::vector<values> all{std::move(dx), channel_sums(products, shape), channel_sums(dy, shape)};
  if (what.residual) all.push_back(std::move(dy));
  return all;
}

std::vector<values> apply(const add&, const arguments& of) {
  return {added(of.in[0], of.in[1])};
}

std::vector<values> apply(const global_average_pool&, const arguments& of) {
  const dims& x = of.in_shape(0);
  const dims& y = of.out_shape(0);
  values means = zeros(y);
  for_each(x, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    means[place(y, n, c, 0, 0)] += of.in[0][place(x, n, c, h, w)];
  });
  for (double& mean : means) mean /= static_cast<double>(x.h * x.w);
  return {std::move(means)};
}

std::vector<values> apply(const global_average_pool_backward&, const arguments& of) {
  const dims& y = of.in_shape(0);
  const dims& x = of.out_shape(0);
  values dx = zeros(x);
  for_each(x, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    dx[place(x, n, c, h, w)] = of.in[0][place(y, n, c, 0, 0)] / static_cast<double>(x.h * x.w);
  });
  return {std::move(dx)};
}

std::vector<values> apply(const cast&, const arguments& of) {
  values y = of.in[0];
  if (of.g.tensors[of.o.out[0]].type == dtype::bf16) {
    for (double& value : y) value = rounded_to_bf16(value);
  }
  return {std::move(y)};
}

std::vector<values> apply(const softmax_cross_entropy&, const arguments& of) {
  const dims& shape = of.in_shape(0);
  const auto classes = static_cast<std::size_t>(shape.c);
  values probabilities = of.in[0];
  double loss = 0;
  for (std::size_t n = 0; n < static_cast<std::size_t>(shape.n); ++n) {
    const std::span<double> row = std::span(probabilities).subspan(n * classes, classes);
    const double largest = *std::ranges::max_element(row);
    const double of_label = row[as_index(of.in[1][n])];
    double total = 0;
    for (double& value : row) total += value = std::exp(value - largest);
    for (double& value : row) value /= total;
    loss += std::log(total) + largest - of_label;
  }
  return {{loss / static_cast<double>(shape.n)}, std::move(probabilities)};
}

std::vector<values> apply(const softmax_cross_entropy_backward&, const arguments& of) {
  const dims& shape = of.in_shape(0);
  const auto classes = static_cast<std::size_t>(shape.c);
  values dlogits = of.in[0];
  for (std::size_t n = 0; n < static_cast<std::size_t>(shape.n); ++n) {
    dlogits.at(n * classes + as_index(of.in[1][n])) -= 1;
  }
  for (double& value : dlogits) value /= static_cast<double>(shape.n);
  return {std::move(dlogits)};
}

std::vector<values> apply(const softmax_cross_entropy_gradient&, const arguments& of) {
  std::vector<values> all = apply(softmax_cross_entropy{}, of);
  values& probabilities = all[1];
  const std::array<values, 2> in{std::move(probabilities), of.in[1]};
  probabilities = std::move(apply(softmax_cross_entropy_backward{}, {of.g, of.o, in})[0]);
  return all;
}

std::vector<values> apply(const opaque& what, const arguments&) {
  throw std::invalid_argument("an opaque operator (" + what.label + ") has no values");
}

std::vector<values> apply(const sgd_update& what, const arguments& of) {
  values w = of.in[0];
  for (std::size_t i = 0; i < w.size(); ++i) w[i] -= double{what.learning_rate} * of.in[1][i];
  return {std::move(w)};
}

// The equations of torch.optim.SGD and AdamW, a parameter at a time.
std::vector<values> apply(const optimizer_step& what, const arguments& of) {
  std::vector<values> out;
  const double steps = what.moments == 2 ? of.in.back()[0] + 1 : 0;
  const double rate = what.learning_rate, beta1 = what.beta1, beta2 = what.beta2;
  const std::size_t parameters_end = of.in.size() - (what.moments == 2 ? 1 : 0);
  for (std::size_t at = 0; at < parameters_end;) {
    const bool narrow = of.g.tensors[of.o.in[at]].type == dtype::bf16;
    const std::size_t last = at + 1 + static_cast<std::size_t>(what.moments);
    const values& g = of.in[at + 1];
    values w = narrow ? of.in[last + 1] : of.in[at];
    values m = what.moments > 0 ? of.in[at + 2] : values(w.size());
    values v = what.moments > 1 ? of.in[at + 3] : values(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (what.moments == 0) w[i] -= rate * g[i];
      if (what.moments == 1) w[i] -= rate * (m[i] = beta1 * m[i] + g[i]);
      if (what.moments < 2) continue;
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      const double mean = m[i] / (1 - std::pow(beta1, steps)), square = v[i] / (1 - std::pow(beta2, steps));
      w[i] =
          w[i] * (1 - rate * double{what.decay}) - rate * mean / (std::sqrt(square) + double{what.epsilon});
    }
    out.push_back(w);
    if (narrow) std::ranges::transform(w, out.back().begin(), rounded_to_bf16);
    if (what.moments > 0) out.push_back(std::move(m));
    if (what.moments > 1) out.push_back(std::move(v));
    if (narrow) out.push_back(std::move(w));
    at = last + (narrow ? 2 : 1);
  }
  if (what.moments == 2) out.push_back({steps});
  return out;
}

}  // namespace

std::vector<values> execute(const graph& g, const op& o, std::span<const values> in) {
  if (in.size() != o.in.size()) {
    throw std::invalid_argument("operator " + o.name + " takes " + std::to_string(o.in.size()) +
                                " inputs, not " + std::to_string(in.size()));
  }
  for (std::size_t i = 0; i < in.size(); ++i) expect_size(g.tensors[o.in[i]], in[i]);
  return std::visit([&](const auto& what) { return apply(what, {g, o, in}); }, o.attributes.value);
}

}  // namespace um::reference
