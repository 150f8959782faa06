// What the operators' tests are too small or too tame for: more than 2^31 elements, values far from
// zero, labels out of range.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "backends/bf16.hpp"
#include "backends/cuda/kernels/link_copy.hpp"
#include "backends/cuda/kernels/pitched_copy.hpp"
#include "tests/cuda/gpu.hpp"
#include "um_allocators/arena.hpp"
#include "um_allocators/check.hpp"
#include "um_allocators/managed_range.hpp"

namespace um::gpu_tests {
namespace {

using kernels::tensor_form;

template <class Value>
std::vector<Value> fetched(const std::byte* from, std::size_t count) {
  std::vector<Value> to(count);
  check(cudaMemcpy(to.data(), from, count * sizeof(Value), cudaMemcpyDeviceToHost));
  return to;
}
template <class Value>
arena uploaded(const std::vector<Value>& values) {
  arena to = device_arena(values.size() * sizeof(Value));
  check(cudaMemcpy(to.data(), values.data(), to.bytes(), cudaMemcpyHostToDevice));
  check(cudaDeviceSynchronize());  // kernels run on a stream that does not wait for this
  return to;
}
float* floats(const arena& of) {
  return reinterpret_cast<float*>(of.data());
}

using box_copies = on_gpu;

// Runs of one byte and of many, at odd and at even addresses, side by side and apart, one slice and several;
// on the device, and between it and pinned memory. What lies between the runs stays.
TEST_F(box_copies, move_runs_and_nothing_else) {
  constexpr byte_count room = 256 * KiB;
  const arena here = device_arena(room), there = device_arena(room), home = pinned_arena(room);
  std::vector<std::byte> values(room);
  for (std::size_t i = 0; i < room; ++i) values[i] = static_cast<std::byte>(i * 2654435761U >> 13U);
  const cudaStream_t on = gpu().compute().stream;
  const std::vector<kernels::byte_box> boxes{{1, 7, 3, 5, 100, 9, 77},
                                             {12, 50, 4, 20, 1200, 12, 600},
                                             {28, 30, 5, 56, 1680, 28, 840},
                                             {64, 100, 1, 256, 0, 64, 0},
                                             {96, 9, 11, 96, 864, 128, 1152},
                                             {512, 8, 6, 1024, 9000, 512, 4096},
                                             {4096, 1, 1, 0, 0, 0, 0},
                                             {36, 1, 40, 0, 100, 0, 36},
                                             {2048, 16, 2, 2048, 32768, 2048, 32768},
                                             {16, 200, 3, 64, 12800, 16, 3200}};
  for (const kernels::byte_box& box : boxes) {
    for (const auto& [from, to] : {std::pair{&here, &there}, {&home, &there}, {&here, &home}}) {
      for (const byte_count offset : {0U, 3U, 4U}) {
        for (const auto& copy :
             {kernels::copy_box, kernels::copy_box_by_kernel, kernels::copy_box_by_engine}) {
          check(cudaMemcpy(from->data(), values.data(), room, cudaMemcpyDefault));
          check(cudaMemset(to->data(), 0xee, room));
          check(cudaDeviceSynchronize());
          copy(on, to->data() + offset, from->data() + 2 * offset, box);
          check(cudaStreamSynchronize(on));
          std::vector<std::byte> out(room), expected(room, std::byte{0xee});
          check(cudaMemcpy(out.data(), to->data(), room, cudaMemcpyDefault));
          for (byte_count d = 0; d < box.depth; ++d) {
            for (byte_count h = 0; h < box.height; ++h) {
              const byte_count at = 2 * offset + d * box.from_slice + h * box.from_pitch;
              std::copy_n(values.data() + at, box.width,
                          expected.data() + offset + d * box.to_slice + h * box.to_pitch);
            }
          }
          EXPECT_EQ(out, expected) << box.width << " bytes, " << box.height << " x " << box.depth
                                   << ", offset " << offset;
        }
      }
    }
  }
}

using kernels_at_limits = on_gpu;

TEST_F(kernels_at_limits, variance_of_values_far_from_zero) {
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    const tensor_form of{{16, 8, 20, 20}, dtype::f32, order};
    const auto count = static_cast<std::size_t>(element_count(of.shape));
    std::vector<float> x(count);
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < count; ++i) {
      x[i] = 4096.0F + static_cast<float>(i * 7919 % 1024) / 1024.0F;
    }

    const tensor t{"x", of.shape, of.type, role::input, order};
    std::vector<double> channel;
    for (std::size_t i = 0; i < count; ++i) {
      const auto logical = logical_index(t, static_cast<std::int64_t>(i));
      if (logical / (of.shape.h * of.shape.w) % of.shape.c == 0) channel.push_back(x[i]);
    }
    for (const double v : channel) sum += v;
    const double mean = sum / static_cast<double>(channel.size());
    for (const double v : channel) squares += (v - mean) * (v - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(channel.size()));
    const arena from = uploaded(x), means = device_arena(32), inverses = device_arena(32);
    const arena workspace = device_arena(kernels::batch_statistics_workspace(of));
    kernels::batch_statistics(gpu().compute(), from.data(), 0.0F, floats(means), floats(inverses), of,
                              floats(workspace));
    check(cudaStreamSynchronize(gpu().compute().stream));
    EXPECT_NEAR(fetched<float>(means.data(), 1)[0], mean, 4096 * 1e-6);
    EXPECT_NEAR(fetched<float>(inverses.data(), 1)[0] * deviation, 1.0, 1e-5);
  }
}

TEST_F(kernels_at_limits, label_out_of_range_shows_in_the_loss) {
  const arena logits = uploaded(std::vector<float>{1, 2, 3, 4, 5, 6});
  const arena labels = uploaded(std::vector<std::int32_t>{0, 3});
  const arena loss = device_arena(4), gradient = device_arena(24), workspace = device_arena(8);
  kernels::softmax_cross_entropy_gradient(gpu().compute(), logits.data(),
                                          reinterpret_cast<const std::int32_t*>(labels.data()), floats(loss),
                                          gradient.data(), {2, 3, 2, dtype::f32}, false, floats(workspace));
  check(cudaStreamSynchronize(gpu().compute().stream));
  EXPECT_TRUE(std::isnan(fetched<float>(loss.data(), 1)[0]));
}

// --- copies between managed and pinned memory ---

using link_copies = on_gpu;

std::byte pattern(std::size_t i) {
  return static_cast<std::byte>(i * 131 + i / 251);
}

// Out to pinned memory and back behind what was there: everything arrives, and nothing else is touched.
TEST_F(link_copies, arrive_whole_and_touch_nothing_else) {
  constexpr std::size_t chunk = 4096, vector = 16, room = 1 << 20;
  require_demand_paging(gpu().device());
  const arena managed = managed_arena(2 * room), pinned = pinned_arena(room);
  std::byte* const first = managed.data();
  std::byte* const second = managed.data() + room;
  const cudaStream_t on = gpu().compute().stream;
  using kernels::launch_site;
  using copier = void (*)(launch_site, const void*, void*, std::size_t);
  constexpr copier at_full_speed = [](launch_site where, const void* from, void* to, std::size_t bytes) {
    kernels::copy_over_link(where, from, to, bytes, 0);
  };
  constexpr copier paced = [](launch_site where, const void* from, void* to, std::size_t bytes) {
    kernels::copy_over_link(where, from, to, bytes, 1'000'000'000);
  };
  for (const copier copy : {at_full_speed, paced, copier{&kernels::copy_over_link_by_loads}}) {
    for (const std::size_t bytes : {vector, std::size_t{20}, chunk - vector, chunk, chunk + vector, 4 * chunk,
                                    24 * chunk, 33 * chunk, 40 * chunk + 100, 131 * chunk + 48}) {
      const std::size_t copied = (bytes + vector - 1) / vector * vector;
      for (std::size_t i = 0; i < room; ++i) first[i] = pattern(i + bytes);
      std::fill_n(pinned.data(), room, std::byte{0xee});
      std::fill_n(second, room, std::byte{0xdd});
      prefetch_to_device({managed.data(), managed.bytes()}, gpu().device(), on);
      copy({on, gpu().compute().multiprocessors}, first, pinned.data(), bytes);
      copy({on, gpu().compute().multiprocessors}, pinned.data(), second, bytes);
      check(cudaStreamSynchronize(on));
      for (std::size_t i = 0; i < room; ++i) {
        ASSERT_EQ(pinned.data()[i], i < copied ? pattern(i + bytes) : std::byte{0xee})
            << bytes << " at " << i;
        ASSERT_EQ(second[i], i < copied ? pattern(i + bytes) : std::byte{0xdd}) << bytes << " at " << i;
      }
    }
  }
}

// --- more than 2^31 elements ---

constexpr dims huge{33, 64, 1024, 1024}, halved{33, 64, 512, 512};

// What kernels::fill puts at an element.
float filled(std::int64_t i, std::uint32_t seed) {
  std::uint32_t z = static_cast<std::uint32_t>(i) * 0x9e3779b9U + seed;
  z = (z ^ (z >> 16)) * 0x85ebca6bU;
  z = (z ^ (z >> 13)) * 0xc2b2ae35U;
  z ^= z >> 16;
  const float value =
      static_cast<float>(static_cast<std::int32_t>(z >> 8) - (1 << 23)) / static_cast<float>(1 << 23);
  return from_bf16(to_bf16(value));
}

arena filled_halves(session& gpu, const dims& shape, std::uint32_t seed) {
  arena to = device_arena(static_cast<byte_count>(element_count(shape)) * 2);
  kernels::fill_random(gpu.compute(), to.data(), element_count(shape), dtype::bf16, seed);
  return to;
}

float half_at(const arena& of, std::int64_t i) {
  return from_bf16(fetched<std::uint16_t>(of.data() + 2 * i, 1)[0]);
}

// Elements at both ends, around 2^31 and in between.
std::vector<std::int64_t> samples_of(std::int64_t count) {
  std::vector<std::int64_t> all{0, count - 1};
  for (const std::int64_t i : {count / 3, std::int64_t{1} << 31, (std::int64_t{1} << 31) + 12345}) {
    for (std::int64_t k = -2; k < 3; ++k) {
      if (i + k < count) all.push_back(i + k);
    }
  }
  return all;
}

bool has_memory(byte_count bytes) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return free > bytes;
}

using kernels_beyond_two_billion = on_gpu;

TEST_F(kernels_beyond_two_billion, relu_and_bias_gradient) {
  if (!has_memory(12 * GiB)) GTEST_SKIP() << "needs 12 GiB of free device memory";
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    const tensor_form of{huge, dtype::bf16, order};
    const arena y = filled_halves(gpu(), huge, 1), dy = filled_halves(gpu(), huge, 2);
    const arena db = device_arena(64 * 4), again = device_arena(64 * 4);
    const arena workspace = device_arena(kernels::bias_backward_workspace(of));
    kernels::relu_bias_backward(gpu().compute(), y.data(), dy.data(), dy.data(), floats(db), of, false,
                                floats(workspace));
    tensor_form part = of;
    part.shape.n = 11;
    for (int i = 0; i < 3; ++i) {
      kernels::bias_backward(gpu().compute(), dy.data() + i * 2 * element_count(part.shape), floats(again),
                             part, i > 0, floats(workspace));
    }
    check(cudaStreamSynchronize(gpu().compute().stream));
    for (const std::int64_t i : samples_of(element_count(huge))) {
      EXPECT_EQ(half_at(dy, i), filled(i, 1) > 0 ? filled(i, 2) : 0.0F) << i;
    }
    const auto sums = fetched<float>(db.data(), 64), parts = fetched<float>(again.data(), 64);
    for (std::size_t c = 0; c < 64; ++c) EXPECT_NEAR(sums[c], parts[c], 1.0) << c;  // of 3.4e7 elements
  }
}

TEST_F(kernels_beyond_two_billion, max_pool_and_its_gradient) {
  if (!has_memory(12 * GiB)) GTEST_SKIP() << "needs 12 GiB of free device memory";
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    const kernels::max_pool_problem p{huge, halved, {2, 2, 0}, dtype::bf16, order, 1};
    const arena x = filled_halves(gpu(), huge, 1), dy = filled_halves(gpu(), halved, 2);
    const arena y = device_arena(dy.bytes()), index = device_arena(dy.bytes() / 2);
    kernels::max_pool_forward(gpu().compute(), x.data(), nullptr, y.data(), index.data(), p);
    kernels::max_pool_backward(gpu().compute(), dy.data(), index.data(), nullptr, x.data(), nullptr, p, false,
                               nullptr);
    check(cudaStreamSynchronize(gpu().compute().stream));
    const tensor from{"x", huge, dtype::bf16, role::input, order};
    const tensor to{"y", halved, dtype::bf16, role::output, order};
    const dims from_strides = strides_of(from), to_strides = strides_of(to);
    for (const std::int64_t i : samples_of(element_count(huge))) {
      const std::int64_t logical = logical_index(from, i);
      const std::int64_t w = logical % 1024, h = logical / 1024 % 1024, c = logical / 1024 / 1024 % 64;
      const std::int64_t n = logical / 1024 / 1024 / 64;
      const std::int64_t window =
          n * to_strides.n + c * to_strides.c + h / 2 * to_strides.h + w / 2 * to_strides.w;
      const std::int64_t first =
          n * from_strides.n + c * from_strides.c + h / 2 * 2 * from_strides.h + w / 2 * 2 * from_strides.w;
      int best = 0;
      std::vector<float> values;
      for (int k = 0; k < 4; ++k) {
        values.push_back(filled(first + k / 2 * from_strides.h + k % 2 * from_strides.w, 1));
        if (values[static_cast<std::size_t>(k)] > values[static_cast<std::size_t>(best)]) best = k;
      }
      EXPECT_EQ(half_at(y, window), values[static_cast<std::size_t>(best)]) << i;
      const bool is_largest = h % 2 * 2 + w % 2 == best;
      EXPECT_EQ(half_at(x, i), is_largest ? filled(window, 2) : 0.0F) << i;
    }
  }
}

}  // namespace
}  // namespace um::gpu_tests
