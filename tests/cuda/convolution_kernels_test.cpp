// Packing and spot checks by themselves, on small odd shapes in every type and memory order. engines_test.cpp
// tests the other kernels of convolutions.
#include "backends/cuda/convolution_kernels.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/cuda/elements.hpp"
#include "tests/cuda/gpu.hpp"
#include "um_allocators/arena.hpp"
#include "um_allocators/check.hpp"

namespace um::gpu_tests {
namespace {

using reference::values;

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

values fetched(const arena& from, const tensor& t) {
  std::vector<std::byte> bytes(bytes_of(t));
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(bytes.data(), from.data(), bytes.size(), cudaMemcpyDeviceToHost));
  return from_memory(t, bytes);
}

// A convolution of stride 1 with 3 x 3 filters, its operands and the reference's results.
struct example {
  dims x{3, 5, 9, 10}, w{7, 5, 3, 3}, y{3, 7, 9, 10};
  convolution attributes{1, 1, 1, 1, false};
  values x_values = random_values(x, 1), w_values = random_values(w, 2), y_values = random_values(y, 3);

  values reference_of(op_attributes operation, std::array<int, 3> roles) const {
    graph g;
    for (const dims& shape : {x, w, y}) g.tensors.push_back(tensor_of(shape, dtype::f32, memory_order::nchw));
    const values* const all[] = {&x_values, &w_values, &y_values};
    const auto id = [&](std::size_t i) { return static_cast<tensor_id>(roles.at(i)); };
    const op o{"o", std::move(operation), {id(0), id(1)}, {id(2)}, true, {}};
    const values in[] = {*all[roles[0]], *all[roles[1]]};
    return reference::execute(g, o, in).at(0);
  }
  values forward() const { return reference_of(attributes, {0, 1, 2}); }
  values backward_data() const { return reference_of(convolution_backward_data{attributes}, {1, 2, 0}); }
  values backward_filter() const { return reference_of(convolution_backward_filter{attributes}, {0, 2, 1}); }
};

class convolution_kernels : public on_gpu {
 protected:
  kernels::launch_site where() { return gpu().compute(); }
};

constexpr memory_order orders[] = {memory_order::nchw, memory_order::nhwc};
constexpr double f32_accuracy = 3e-6;

// What packing says of itself, element by element.
values packed_by_hand(const values& plain, const kernels::packing& form) {
  values packed(static_cast<std::size_t>(element_count(form.packed_shape)), 0);
  const auto index = [](const dims& s, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return static_cast<std::size_t>(((n * s.c + c) * s.h + h) * s.w + w);
  };
  for (std::int64_t n = 0; n < form.packed_shape.n; ++n) {
    for (std::int64_t c = 0; c < form.plain_shape.c * form.block * form.block; ++c) {
      const std::int64_t a = c / form.plain_shape.c / form.block, b = c / form.plain_shape.c % form.block;
      for (std::int64_t i = 0; i < form.packed_shape.h; ++i) {
        for (std::int64_t j = 0; j < form.packed_shape.w; ++j) {
          const std::int64_t h = i * form.block + a - form.pad_h, w = j * form.block + b - form.pad_w;
          if (h < 0 || w < 0 || h >= form.plain_shape.h || w >= form.plain_shape.w) continue;
          packed[index(form.packed_shape, n, c, i, j)] =
              plain[index(form.plain_shape, n, c % form.plain_shape.c, h, w)];
        }
      }
    }
  }
  return packed;
}

TEST_F(convolution_kernels, pack_few_channels_and_unpack_their_gradient) {
  for (const memory_order order : orders) {
    for (const dtype type : {dtype::f32, dtype::bf16}) {
      for (const kernels::packing& form :
           {kernels::packing{{2, 3, 11, 13}, {2, 48, 4, 5}, 4, 2, 2, type, order},
            kernels::packing{{2, 3, 11, 13}, {2, 16, 6, 7}, 2, 0, 1, type, order},
            kernels::packing{{5, 3, 11, 11}, {5, 48, 3, 3}, 4, 0, 0, type, order},
            kernels::packing{{5, 3, 3, 3}, {5, 8, 3, 3}, 1, 0, 0, type, order}}) {
        const tensor plain = tensor_of(form.plain_shape, type, order),
                     packed = tensor_of(form.packed_shape, type, order);
        const auto bytes = in_memory(plain, random_values(form.plain_shape, 5));
        const values rounded = from_memory(plain, bytes);
        const arena from = uploaded(bytes), to = device_arena(bytes_of(packed));
        kernels::pack_channels(where(), from.data(), to.data(), form);
        EXPECT_EQ(fetched(to, packed), packed_by_hand(rounded, form));
        if (form.pad_h + form.pad_w > 0) continue;  // filters have none
        const tensor gradient = tensor_of(form.plain_shape, dtype::f32, order);
        const arena dw = uploaded(gradient, values(rounded.size(), 0.5));
        kernels::unpack_filter_gradient(where(), to.data(), floats(dw), form, true);
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
      kernels::sampled_convolution of{it.x, it.w, it.y, it.attributes, dtype::f32, dtype::f32, order, which};
      std::vector<arena> at;
      for (std::size_t i = 0; i < 3; ++i)
        at.push_back(uploaded(tensor_of(shapes[i], dtype::f32, order), *all[i]));
      const auto expected =
          kernels::sampled_results(where(), of, at[0].data(), at[1].data(), at[2].data(), nullptr);
      const tensor form = tensor_of(shapes[which], dtype::f32, order);
      values right = results[which], wrong = right;
      for (double& value : wrong) value *= 1.01;
      EXPECT_LT(kernels::sampled_relative_error(where(), of, uploaded(form, right).data(), expected),
                f32_accuracy);
      EXPECT_NEAR(kernels::sampled_relative_error(where(), of, uploaded(form, wrong).data(), expected), 0.01,
                  1e-4);
    }
  }
}

}  // namespace
}  // namespace um::gpu_tests
