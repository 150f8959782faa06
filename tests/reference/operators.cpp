#include "tests/reference/operators.hpp"

#include <algorithm>
#include <cmath>

namespace um::reference {
namespace {

values zeros(const dims& shape) {
  return values(static_cast<std::size_t>(elements(shape)));
}

std::size_t place(const dims& shape, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  return static_cast<std::size_t>(((n * shape.c + c) * shape.h + h) * shape.w + w);
}

template <class Visit>
void for_each(const dims& shape, const Visit& visit) {
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
template <class Visit>
void for_each_product(const convolution& a, const dims& x, const dims& w, const dims& y, const Visit& visit) {
  for_each(y, [&](std::int64_t n, std::int64_t k, std::int64_t i, std::int64_t j) {
    for_each({1, x.c, w.h, w.w}, [&](std::int64_t, std::int64_t c, std::int64_t r, std::int64_t s) {
      const std::int64_t row = i * a.stride_h - a.pad_h + r;
      const std::int64_t column = j * a.stride_w - a.pad_w + s;
      if (row < 0 || row >= x.h || column < 0 || column >= x.w) return;
      visit(place(x, n, c, row, column), place(w, k, c, r, s), place(y, n, k, i, j));
    });
  });
}

// The same for x [n, in], w [out, in], y [n, out].
template <class Visit>
void for_each_product(const dims& w, const dims& y, const Visit& visit) {
  for (std::int64_t n = 0; n < y.n; ++n) {
    for (std::int64_t k = 0; k < w.n; ++k) {
      for (std::int64_t c = 0; c < w.c; ++c) {
        visit(static_cast<std::size_t>(n * w.c + c), static_cast<std::size_t>(k * w.c + c),
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

}  // namespace

std::vector<values> apply(const convolution& what, const arguments& of) {
  values y = biases(of);
  for_each_product(what, of.in_shape(0), of.in_shape(1), of.out_shape(0),
                   [&](std::size_t x, std::size_t w, std::size_t at) { y[at] += of.in[0][x] * of.in[1][w]; });
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
  values db = zeros(of.out_shape(0));
  const dims& shape = of.in_shape(0);
  for_each(shape, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    db[static_cast<std::size_t>(c)] += of.in[0][place(shape, n, c, h, w)];
  });
  return {std::move(db)};
}

std::vector<values> apply(const relu&, const arguments& of) {
  values y = of.in[0];
  for (double& value : y) value = std::max(value, 0.0);
  return {std::move(y)};
}

std::vector<values> apply(const relu_backward&, const arguments& of) {
  values dx = of.in[1];
  for (std::size_t i = 0; i < dx.size(); ++i) {
    if (!(of.in[0][i] > 0)) dx[i] = 0;
  }
  return {std::move(dx)};
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
  return {std::move(largest), std::move(index)};
}

std::vector<values> apply(const max_pool_backward& what, const arguments& of) {
  const dims& y = of.in_shape(0);
  const dims& x = of.out_shape(0);
  const max_pool& pool = what.forward;
  values dx = zeros(x);
  for_each(y, [&](std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) {
    const std::size_t at = place(y, n, c, i, j);
    const std::int64_t index = std::llround(of.in[1][at]);
    const std::int64_t h = i * pool.stride - pool.pad + index / pool.window;
    const std::int64_t w = j * pool.stride - pool.pad + index % pool.window;
    dx[place(x, n, c, h, w)] += of.in[0][at];
  });
  return {std::move(dx)};
}

std::vector<values> apply(const linear&, const arguments& of) {
  values y = biases(of);
  for_each_product(of.in_shape(1), of.out_shape(0),
                   [&](std::size_t x, std::size_t w, std::size_t at) { y[at] += of.in[0][x] * of.in[1][w]; });
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
  return {std::move(dw)};
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
    dlogits[n * classes + as_index(of.in[1][n])] -= 1;
  }
  for (double& value : dlogits) value /= static_cast<double>(shape.n);
  return {std::move(dlogits)};
}

std::vector<values> apply(const sgd_update& what, const arguments& of) {
  values w = of.in[0];
  for (std::size_t i = 0; i < w.size(); ++i) w[i] -= double{what.learning_rate} * of.in[1][i];
  return {std::move(w)};
}

}  // namespace um::reference
