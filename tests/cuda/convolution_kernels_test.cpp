// The kernels around convolution engines by themselves, the products between them computed here:
// packing, Winograd's transforms, and spot checks, on small odd shapes in every type and memory order.
#include "backends/cuda/convolution_kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/cuda/elements.hpp"
#include "tests/cuda/gpu.hpp"
#include "um_allocators/arena.hpp"
#include "um_allocators/check.hpp"

namespace um::gpu_tests {
namespace {

using kernels::winograd_tiles;
using reference::values;
constexpr std::int64_t taps = kernels::winograd_elements;

float* floats(const arena& of) {
  return reinterpret_cast<float*>(of.data());
}

tensor tensor_of(const dims& shape, dtype type, memory_order order) {
  return {"t", shape, type, role::activation, order};
}

values random_values(const dims& shape, std::uint32_t seed) {
  values all(static_cast<std::size_t>(element_count(shape)));
  for (double& value : all) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<double>(seed >> 8U) / (1U << 23U) - 1;
  }
  return all;
}

arena uploaded(const std::vector<std::byte>& bytes) {
  arena to = device_arena(bytes.size());
  check(cudaMemcpy(to.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  check(cudaDeviceSynchronize());  // kernels run on a stream that does not wait for this
  return to;
}
arena uploaded(const tensor& t, const values& of) {
  return uploaded(in_memory(t, of));
}
arena uploaded(const std::vector<float>& of) {
  const auto* const begin = reinterpret_cast<const std::byte*>(of.data());
  return uploaded(std::vector<std::byte>(begin, begin + of.size() * sizeof(float)));
}

values fetched(const arena& from, const tensor& t) {
  std::vector<std::byte> bytes(bytes_of(t));
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(bytes.data(), from.data(), bytes.size(), cudaMemcpyDeviceToHost));
  return from_memory(t, bytes);
}
std::vector<float> fetched(const arena& from, std::int64_t count) {
  std::vector<float> to(static_cast<std::size_t>(count));
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(to.data(), from.data(), to.size() * sizeof(float), cudaMemcpyDeviceToHost));
  return to;
}

arena room_for(std::int64_t count) {
  return device_arena(static_cast<byte_count>(count) * sizeof(float));
}

// A convolution of stride 1 with 3 x 3 filters, its operands and the reference's results.
struct example {
  dims x{3, 5, 9, 10}, w{7, 5, 3, 3}, y{3, 7, 9, 10};
  convolution how{1, 1, 1, 1, false};
  values x_values = random_values(x, 1), w_values = random_values(w, 2), y_values = random_values(y, 3);

  values reference_of(op_attributes what, std::array<int, 3> roles) const {
    graph g;
    for (const dims& shape : {x, w, y}) g.tensors.push_back(tensor_of(shape, dtype::f32, memory_order::nchw));
    const values* const all[] = {&x_values, &w_values, &y_values};
    const auto id = [&](std::size_t i) { return static_cast<tensor_id>(roles.at(i)); };
    const op o{"o", std::move(what), {id(0), id(1)}, {id(2)}, true, {}};
    const values in[] = {*all[roles[0]], *all[roles[1]]};
    return reference::execute(g, o, in).at(0);
  }
  values forward() const { return reference_of(how, {0, 1, 2}); }
  values backward_data() const { return reference_of(convolution_backward_data{how}, {1, 2, 0}); }
  values backward_filter() const { return reference_of(convolution_backward_filter{how}, {0, 2, 1}); }
};

class convolution_kernels : public on_gpu {
 protected:
  kernels::launch_site where() { return gpu().compute(); }

  // result[e][k][tile] = sum over c of filter[e][k][c] * tiles[e][c][tile], matrices of tiles as the
  // order has them.
  arena products(const arena& filter, const arena& tiles, std::int64_t k, std::int64_t c, std::int64_t count,
                 memory_order order) {
    const auto f = fetched(filter, taps * k * c), t = fetched(tiles, taps * c * count);
    const bool planes = order == memory_order::nchw;
    std::vector<float> result(static_cast<std::size_t>(taps * k * count));
    for (std::int64_t e = 0; e < taps; ++e) {
      for (std::int64_t i = 0; i < k; ++i) {
        for (std::int64_t p = 0; p < count; ++p) {
          double sum = 0;
          for (std::int64_t j = 0; j < c; ++j) {
            const std::int64_t at = planes ? (e * c + j) * count + p : (e * count + p) * c + j;
            sum += double(f[static_cast<std::size_t>((e * k + i) * c + j)]) * t[static_cast<std::size_t>(at)];
          }
          const std::int64_t to = planes ? (e * k + i) * count + p : (e * count + p) * k + i;
          result[static_cast<std::size_t>(to)] = static_cast<float>(sum);
        }
      }
    }
    return uploaded(result);
  }
};

constexpr memory_order orders[] = {memory_order::nchw, memory_order::nhwc};
constexpr double f32_accuracy = 3e-6;

TEST_F(convolution_kernels, transform_tiles_filters_and_results) {
  const example it;
  for (const memory_order order : orders) {
    const winograd_tiles in{it.x, 3, 3, 1, 1, order, 1}, out{it.y, 3, 3, 0, 0, order, 1};
    const arena x = uploaded(tensor_of(it.x, dtype::f32, order), it.x_values);
    const arena w = uploaded(tensor_of(it.w, dtype::f32, order), it.w_values);
    const values bias = random_values({1, it.y.c, 1, 1}, 9);
    const arena b = uploaded(tensor_of({1, it.y.c, 1, 1}, dtype::f32, order), bias);
    const arena tiles = room_for(taps * it.x.c * in.count()), filter = room_for(taps * it.w.n * it.w.c);
    kernels::winograd_input(where(), floats(x), floats(tiles), in);
    kernels::winograd_filter(where(), floats(w), floats(filter), it.w, order, false);
    const arena product = products(filter, tiles, it.w.n, it.w.c, in.count(), order);
    const arena y = room_for(element_count(it.y));
    kernels::winograd_output(where(), floats(product), floats(y), floats(b), true, out);
    values expected = it.forward();
    const std::int64_t plane = it.y.h * it.y.w;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto channel = static_cast<std::size_t>(static_cast<std::int64_t>(i) / plane % it.y.c);
      expected[i] = std::max(expected[i] + bias[channel], 0.0);
    }
    EXPECT_LT(relative_error(fetched(y, tensor_of(it.y, dtype::f32, order)), expected), f32_accuracy)
        << to_text(order);
  }
}

TEST_F(convolution_kernels, turn_filters_around_for_the_data_gradient) {
  const example it;
  for (const memory_order order : orders) {
    const winograd_tiles in{it.y, 3, 3, 1, 1, order, 1}, out{it.x, 3, 3, 0, 0, order, 1};
    const arena dy = uploaded(tensor_of(it.y, dtype::f32, order), it.y_values);
    const arena w = uploaded(tensor_of(it.w, dtype::f32, order), it.w_values);
    const arena tiles = room_for(taps * it.y.c * in.count()), filter = room_for(taps * it.w.n * it.w.c);
    kernels::winograd_input(where(), floats(dy), floats(tiles), in);
    kernels::winograd_filter(where(), floats(w), floats(filter), it.w, order, true);
    const arena product = products(filter, tiles, it.w.c, it.w.n, in.count(), order);
    const arena dx = room_for(element_count(it.x));
    kernels::winograd_output(where(), floats(product), floats(dx), nullptr, false, out);
    EXPECT_LT(relative_error(fetched(dx, tensor_of(it.x, dtype::f32, order)), it.backward_data()),
              f32_accuracy)
        << to_text(order);
  }
}

TEST_F(convolution_kernels, sum_filter_gradients_over_segments) {
  const example it;
  for (const memory_order order : orders) {
    for (const std::int64_t segments : {1, 3}) {
      const winograd_tiles in{it.x, 3, 3, 1, 1, order, segments}, out{it.y, 3, 3, 0, 0, order, segments};
      const arena x = uploaded(tensor_of(it.x, dtype::f32, order), it.x_values);
      const arena dy = uploaded(tensor_of(it.y, dtype::f32, order), it.y_values);
      const arena inputs = room_for(taps * it.x.c * in.count());
      const arena gradients = room_for(taps * it.y.c * in.count());
      kernels::winograd_input(where(), floats(x), floats(inputs), in);
      kernels::winograd_output_gradient(where(), floats(dy), floats(gradients), out);
      // [e][segment][k][c]
      const std::int64_t run = in.count() / segments, c = it.x.c, k = it.y.c;
      const auto a = fetched(inputs, taps * c * in.count()), g = fetched(gradients, taps * k * in.count());
      const bool planes = order == memory_order::nchw;
      std::vector<float> product(static_cast<std::size_t>(taps * segments * k * c));
      for (std::int64_t matrix = 0; matrix < taps * segments; ++matrix) {
        const auto at = [&](std::int64_t channels, std::int64_t channel, std::int64_t tile) {
          return static_cast<std::size_t>(planes ? (matrix * channels + channel) * run + tile
                                                 : (matrix * run + tile) * channels + channel);
        };
        for (std::int64_t i = 0; i < k; ++i) {
          for (std::int64_t j = 0; j < c; ++j) {
            double sum = 0;
            for (std::int64_t p = 0; p < run; ++p) sum += double(g[at(k, i, p)]) * a[at(c, j, p)];
            product[static_cast<std::size_t>((matrix * k + i) * c + j)] = static_cast<float>(sum);
          }
        }
      }
      const tensor dw_form = tensor_of(it.w, dtype::f32, order);
      const arena sums = uploaded(product), dw = uploaded(dw_form, it.w_values);
      kernels::winograd_filter_gradient(where(), floats(sums), floats(dw), it.w, order, segments, true);
      values expected = it.backward_filter();
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += it.w_values[i];
      EXPECT_LT(relative_error(fetched(dw, dw_form), expected), f32_accuracy)
          << to_text(order) << " segments " << segments;
    }
  }
}

// What packing says of itself, element by element.
values packed_by_hand(const values& plain, const kernels::packing& how) {
  values packed(static_cast<std::size_t>(element_count(how.packed_shape)), 0);
  const auto index = [](const dims& s, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return static_cast<std::size_t>(((n * s.c + c) * s.h + h) * s.w + w);
  };
  for (std::int64_t n = 0; n < how.packed_shape.n; ++n) {
    for (std::int64_t c = 0; c < how.plain_shape.c * how.block * how.block; ++c) {
      const std::int64_t a = c / how.plain_shape.c / how.block, b = c / how.plain_shape.c % how.block;
      for (std::int64_t i = 0; i < how.packed_shape.h; ++i) {
        for (std::int64_t j = 0; j < how.packed_shape.w; ++j) {
          const std::int64_t h = i * how.block + a - how.pad_h, w = j * how.block + b - how.pad_w;
          if (h < 0 || w < 0 || h >= how.plain_shape.h || w >= how.plain_shape.w) continue;
          packed[index(how.packed_shape, n, c, i, j)] =
              plain[index(how.plain_shape, n, c % how.plain_shape.c, h, w)];
        }
      }
    }
  }
  return packed;
}

TEST_F(convolution_kernels, pack_few_channels_and_unpack_their_gradient) {
  for (const memory_order order : orders) {
    for (const dtype type : {dtype::f32, dtype::bf16}) {
      for (const kernels::packing& how :
           {kernels::packing{{2, 3, 11, 13}, {2, 48, 4, 5}, 4, 2, 2, type, order},
            kernels::packing{{2, 3, 11, 13}, {2, 16, 6, 7}, 2, 0, 1, type, order},
            kernels::packing{{5, 3, 11, 11}, {5, 48, 3, 3}, 4, 0, 0, type, order},
            kernels::packing{{5, 3, 3, 3}, {5, 8, 3, 3}, 1, 0, 0, type, order}}) {
        const tensor plain = tensor_of(how.plain_shape, type, order),
                     packed = tensor_of(how.packed_shape, type, order);
        const auto bytes = in_memory(plain, random_values(how.plain_shape, 5));
        const values rounded = from_memory(plain, bytes);
        const arena from = uploaded(bytes), to = device_arena(bytes_of(packed));
        kernels::pack_channels(where(), from.data(), to.data(), how);
        EXPECT_EQ(fetched(to, packed), packed_by_hand(rounded, how));
        if (how.pad_h + how.pad_w > 0) continue;  // filters have none
        const tensor gradient = tensor_of(how.plain_shape, dtype::f32, order);
        const arena dw = uploaded(gradient, values(rounded.size(), 0.5));
        kernels::unpack_filter_gradient(where(), to.data(), floats(dw), how, true);
        const values back = fetched(dw, gradient);
        for (std::size_t i = 0; i < back.size(); ++i)
          ASSERT_FLOAT_EQ(float(back[i]), float(rounded[i] + 0.5));
      }
    }
  }
}

TEST_F(convolution_kernels, see_wrong_results_at_sampled_places) {
  const example it;
  const values* const all[] = {&it.x_values, &it.w_values, &it.y_values};
  const values results[] = {it.backward_data(), it.backward_filter(), it.forward()};
  const dims shapes[] = {it.x, it.w, it.y};
  for (const memory_order order : orders) {
    for (const int which : {0, 1, 2}) {
      kernels::sampled_convolution of{it.x, it.w, it.y, it.how, dtype::f32, dtype::f32, order, which};
      std::vector<arena> at;
      for (std::size_t i = 0; i < 3; ++i)
        at.push_back(uploaded(tensor_of(shapes[i], dtype::f32, order), *all[i]));
      const auto expected =
          kernels::sampled_results(where(), of, at[0].data(), at[1].data(), at[2].data(), nullptr);
      const tensor form = tensor_of(shapes[which], dtype::f32, order);
      values right = results[which], wrong = right;
      for (double& value : wrong) value *= 1.01;
      EXPECT_LT(kernels::sampled_difference(where(), of, uploaded(form, right).data(), expected),
                f32_accuracy);
      EXPECT_NEAR(kernels::sampled_difference(where(), of, uploaded(form, wrong).data(), expected), 0.01,
                  1e-4);
    }
  }
}

}  // namespace
}  // namespace um::gpu_tests
