// Every way to compute a convolution, by itself, and not only those that win a choice: small odd
// shapes in every precision and memory order against the reference in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "backends/cuda/convolution_problem.hpp"
#include "backends/cuda/convolution_recipes.hpp"
#include "backends/cuda/kernels.hpp"
#include "backends/cuda/matrix_engines.hpp"
#include "backends/cuda/session.hpp"
#include "tests/cuda/elements.hpp"
#include "tests/cuda/gpu.hpp"

namespace um::gpu_tests {
namespace {

constexpr byte_count workspace_cap = 256 * MiB;

convolution_problem problem_of(convolution_kind kind, const dims& x, std::int64_t k, std::int64_t window,
                               std::int32_t stride, std::int32_t pad) {
  const std::int64_t h = (x.h + 2 * pad - window) / stride + 1, w = (x.w + 2 * pad - window) / stride + 1;
  convolution_problem p{kind, x, {k, x.c, window, window}, {x.n, k, h, w}, {stride, stride, pad, pad, false}};
  if (kind == convolution_kind::forward) p.has_bias = p.attributes.relu = true;
  return p;
}

// Operands of a problem on the device, with the values that they stand for.
class operands {
 public:
  operands(const convolution_problem& p, byte_count workspace) : result_(std::size_t(2)) {
    const dtype type = p.arithmetic == precision::bf16 ? dtype::bf16 : dtype::f32;
    if (p.kind == convolution_kind::backward_data) result_ = 0;
    if (p.kind == convolution_kind::backward_filter) result_ = 1;
    add({"x", p.x, type, role::activation, p.order});
    add({"w", p.w, result_ == 1 ? dtype::f32 : type, role::activation, p.order});
    add({"y", p.y, type, role::activation, p.order});
    if (p.has_bias) add({"b", {1, p.y.c, 1, 1}, dtype::f32, role::parameter, p.order});
    workspace_ = device_arena(std::max<byte_count>(workspace, 256));
    for (std::size_t i = 0; i < tensors_.size(); ++i) put(i, random_values(i));
  }

  bound_operands bound() const {
    bound_operands made;
    for (const arena& a : arenas_) made.data.push_back(a.data());
    made.workspace = workspace_.data();
    return made;
  }

  // NaNs where the result and the workspace are, or a value to be added to. Done when it returns:
  // engines run on a stream that does not wait for others.
  void reset(bool accumulate) {
    check(cudaMemset(workspace_.data(), 0xff, workspace_.bytes()));
    if (accumulate) {
      put(result_, reference::values(elements_of(result_), 0.5));
    } else {
      check(cudaMemset(arenas_[result_].data(), 0xff, arenas_[result_].bytes()));
    }
    check(cudaDeviceSynchronize());
  }

  // Resets the operands, runs the engine and waits for it.
  void run(session& on, const engine& chosen, bool accumulate = false) {
    reset(accumulate);
    chosen.bind(bound())();
    check(cudaStreamSynchronize(on.compute().stream));
  }

  std::vector<std::byte> bytes_of_result() const {
    std::vector<std::byte> bytes(bytes_of(tensors_[result_]));
    check(cudaMemcpy(bytes.data(), arenas_[result_].data(), bytes.size(), cudaMemcpyDefault));
    return bytes;
  }
  // The bias, given or a gradient; and what the gradient should be, added to the value before.
  reference::values bias() const {
    std::vector<std::byte> bytes(bytes_of(tensors_[3]));
    check(cudaMemcpy(bytes.data(), arenas_[3].data(), bytes.size(), cudaMemcpyDefault));
    return from_memory(tensors_[3], bytes);
  }
  reference::values expected_bias(bool accumulate) const {
    reference::values sums = accumulate ? values_[3] : reference::values(values_[3].size(), 0);
    const auto channels = sums.size();
    for (std::size_t i = 0; i < values_[2].size(); ++i) sums[i % channels] += values_[2][i];
    return sums;
  }
  reference::values result() const { return from_memory(tensors_[result_], bytes_of_result()); }

  reference::values expected(const convolution_problem& p) const {
    graph g;
    g.tensors = tensors_;
    op o{"o", p.attributes, {0, 1}, {2}, true, {}};
    std::vector<reference::values> in{values_[0], values_[1]};
    if (p.has_bias) {
      o.in.push_back(3);
      in.push_back(values_[3]);
    }
    if (result_ == 0) {
      o = {"o", convolution_backward_data{p.attributes}, {1, 2}, {0}, true, {}};
      in = {values_[1], values_[2]};
    } else if (result_ == 1) {
      o = {"o", convolution_backward_filter{p.attributes}, {0, 2}, {1}, true, {}};
      in = {values_[0], values_[2]};
    }
    reference::values out = reference::execute(g, o, in).at(0);
    if (p.accumulates) {
      for (double& value : out) value += 0.5;
    }
    return out;
  }

 private:
  std::size_t elements_of(std::size_t i) const {
    return static_cast<std::size_t>(element_count(tensors_[i].shape));
  }
  void add(const tensor& t) {
    tensors_.push_back(t);
    arenas_.push_back(device_arena(bytes_of(t)));
    values_.emplace_back();
  }
  void put(std::size_t i, const reference::values& values) {
    const auto bytes = in_memory(tensors_[i], values);
    check(cudaMemcpy(arenas_[i].data(), bytes.data(), bytes.size(), cudaMemcpyDefault));
    values_[i] = from_memory(tensors_[i], bytes);
  }
  reference::values random_values(std::size_t i) const {
    reference::values all(elements_of(i));
    std::uint32_t state = 77 + static_cast<std::uint32_t>(i);
    for (double& value : all) {
      state = state * 1664525U + 1013904223U;
      value = static_cast<double>(state >> 8) / (1 << 23) - 1;
    }
    return all;
  }

  std::size_t result_;
  std::vector<tensor> tensors_;
  std::vector<arena> arenas_;
  std::vector<reference::values> values_;
  arena workspace_;
};

struct tally {
  std::size_t ran = 0, accurate = 0;
};

// Runs up to `most` recipes of a method; those that cannot run are not counted.
tally run_recipes(session& gpu, const convolution_problem& p, convolution_method method, std::int64_t parts,
                  std::size_t most) {
  operands at(p, workspace_cap);
  const reference::values expected = at.expected(p);
  tally count;
  visit_recipes(gpu, p, method, parts, [&](const convolution_recipe& recipe) {
    if (recipe.workspace_bytes > workspace_cap) return true;
    at.reset(p.accumulates);
    try {
      recipe.bind(at.bound())();
      check(cudaStreamSynchronize(gpu.compute().stream));
    } catch (const cuda_error&) {
      return true;
    }
    ++count.ran;
    if (relative_error(at.result(), expected) <= tolerance_of(p.arithmetic)) ++count.accurate;
    return count.ran < most;
  });
  return count;
}

std::string name_of(const convolution_problem& p, convolution_method method, std::int64_t parts) {
  return signature_of(p) + " method " + std::to_string(static_cast<int>(method)) + " parts " +
         std::to_string(parts);
}

bool is_symmetric(const convolution_problem& p) {
  return p.attributes.pad_h == padding_after(p.x.h, p.attributes.pad_h, p.w.h, p.attributes.stride_h, p.y.h);
}

// Of `p` the results, or gradients, of rows as they are where x has `rows` of its own and `above` of padding.
convolution_problem with_rows(convolution_problem p, std::int64_t rows, std::int32_t above,
                              std::int64_t result_rows) {
  p.x.h = rows;
  p.attributes.pad_h = above;
  p.y.h = result_rows;
  return p;
}

struct stored_as {
  precision arithmetic;
  memory_order order;
};
constexpr stored_as every_way[] = {
    {precision::fp32, memory_order::nchw}, {precision::fp32, memory_order::nhwc},
    {precision::tf32, memory_order::nchw}, {precision::tf32, memory_order::nhwc},
    {precision::bf16, memory_order::nhwc}, {precision::bf16, memory_order::nchw}};
constexpr convolution_kind every_kind[] = {convolution_kind::forward, convolution_kind::backward_data,
                                           convolution_kind::backward_filter};

class convolution_engines : public on_gpu {
 protected:
  // Every method that applies must give right results with one part and with several.
  void expect_methods_right(convolution_problem p) {
    for (const stored_as& way : every_way) {
      p.arithmetic = way.arithmetic;
      p.order = way.order;
      for (const convolution_method method : methods_of(p)) {
        const bool compiles = method == convolution_method::fused;
        for (const std::int64_t parts : {1, 3}) {
          const tally count = run_recipes(gpu(), p, method, parts, compiles ? 2 : 6);
          if (method != convolution_method::winograd_4x4 && !parts_are_aligned(p, parts)) {
            EXPECT_EQ(count.ran, 0U) << name_of(p, method, parts);
            continue;
          }
          if (count.ran > 0) reached_.insert(method);
          // Libraries need not know of padding on one side alone, nor of results that are added to.
          const bool may_refuse = method == convolution_method::adding || !is_symmetric(p);
          if (compiles || (may_refuse && method != convolution_method::padded)) {
            EXPECT_EQ(count.accurate > 0, count.ran > 0) << name_of(p, method, parts);
            EXPECT_TRUE(!compiles || count.accurate == count.ran) << name_of(p, method, parts);
          } else {
            EXPECT_GT(count.accurate, 0U) << name_of(p, method, parts) << ": of " << count.ran;
          }
          if (method == convolution_method::winograd_4x4) {
            EXPECT_EQ(count.accurate, count.ran) << name_of(p, method, parts);
          }
        }
      }
    }
  }
  // By the direct kernel, which is offered.
  void expect_direct_kernel_right(const convolution_problem& p) {
    const std::vector<convolution_method> methods = methods_of(p);
    EXPECT_NE(std::ranges::find(methods, convolution_method::direct), methods.end()) << signature_of(p);
    const tally count = run_recipes(gpu(), p, convolution_method::direct, 1, 2);
    EXPECT_EQ(count.ran, 1U) << signature_of(p);
    EXPECT_EQ(count.accurate, count.ran) << signature_of(p);
  }
  std::set<convolution_method> reached_;
};

TEST_F(convolution_engines, are_right_where_channels_are_many) {
  for (const convolution_kind kind : every_kind)
    expect_methods_right(problem_of(kind, {6, 24, 10, 13}, 40, 3, 1, 1));
  EXPECT_EQ(reached_, (std::set{convolution_method::plain, convolution_method::fused,
                                convolution_method::winograd_4x4}));
}

// Parts of the rows: at the top, in the middle, at the bottom, of one row, and gradients that reach beyond
// what the part has of windows.
TEST_F(convolution_engines, are_right_with_other_padding_below_than_above) {
  for (const convolution_kind kind : every_kind) {
    const auto p = problem_of(kind, {6, 24, 10, 13}, 40, 3, 1, 1);
    for (const auto& part : {with_rows(p, 6, 1, 5), with_rows(p, 6, 0, 4), with_rows(p, 6, 0, 5),
                             with_rows(p, 2, 1, 1), with_rows(p, 4, 2, 5)}) {
      expect_methods_right(part);
    }
    const auto strided = problem_of(kind, {6, 8, 12, 11}, 16, 3, 2, 1);
    for (const auto& part : {with_rows(strided, 4, 1, 2), with_rows(strided, 5, 0, 3)}) {
      expect_methods_right(part);
    }
  }
  EXPECT_TRUE(reached_.count(convolution_method::padded));
}

// Rows that no window meets, above the first, below the last, and none that one meets.
TEST_F(convolution_engines, write_zeros_where_no_window_is) {
  const auto p = problem_of(convolution_kind::backward_data, {6, 8, 12, 10}, 16, 1, 2, 0);
  for (const auto& part :
       {with_rows(p, 5, -1, 2), with_rows(p, 1, -1, 1), with_rows(p, 4, 0, 1), with_rows(p, 6, -1, 1)}) {
    expect_methods_right(part);
  }
  EXPECT_EQ(reached_.count(convolution_method::padded), 1U);
}

TEST_F(convolution_engines, add_to_a_result) {
  for (const convolution_kind kind : {convolution_kind::forward, convolution_kind::backward_data}) {
    for (convolution_problem p :
         {problem_of(kind, {6, 16, 9, 8}, 24, 3, 1, 1), problem_of(kind, {6, 16, 9, 8}, 24, 1, 1, 0),
          with_rows(problem_of(kind, {6, 16, 9, 8}, 24, 3, 1, 1), 5, 1, 4)}) {
      p.accumulates = true;
      p.has_bias = p.attributes.relu = false;
      expect_methods_right(p);
    }
  }
}

TEST_F(convolution_engines, are_right_for_tiles_that_overhang) {
  for (const convolution_kind kind : every_kind) {
    for (const std::int32_t pad : {0, 1, 2}) {
      const auto p = problem_of(kind, {3, 16, 9, 8}, 17, 3, 1, pad);
      for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
        auto stored = p;
        stored.order = order;
        const tally count = run_recipes(gpu(), stored, convolution_method::winograd_4x4, 1, 4);
        EXPECT_GT(count.ran, 0U);
        EXPECT_EQ(count.accurate, count.ran) << signature_of(stored);
      }
    }
  }
}

TEST_F(convolution_engines, are_right_for_gradients_summed_in_segments) {
  const auto p = problem_of(convolution_kind::backward_filter, {4, 16, 64, 64}, 16, 3, 1, 1);
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    auto stored = p;
    stored.order = order;
    for (const std::int64_t parts : {1, 2}) {
      const tally count = run_recipes(gpu(), stored, convolution_method::winograd_4x4, parts, 2);
      EXPECT_GT(count.ran, 0U);
      EXPECT_EQ(count.accurate, count.ran) << name_of(stored, convolution_method::winograd_4x4, parts);
    }
  }
}

TEST_F(convolution_engines, are_right_where_channels_are_few) {
  for (const convolution_kind kind : {convolution_kind::forward, convolution_kind::backward_filter}) {
    expect_methods_right(problem_of(kind, {3, 3, 35, 31}, 16, 11, 4, 2));
    expect_methods_right(problem_of(kind, {3, 3, 30, 29}, 24, 7, 2, 3));
    expect_methods_right(problem_of(kind, {3, 3, 12, 17}, 16, 3, 1, 1));
  }
  EXPECT_TRUE(reached_.count(convolution_method::packed));
}

// Results that fill a tile and that do not, groups of 64 and of 32 channels, filters in one and in
// several runs of depths, one and several tiles a block.
TEST_F(convolution_engines, are_right_by_direct_kernels) {
  for (const convolution_kind kind : {convolution_kind::forward, convolution_kind::backward_filter}) {
    for (const auto& shape :
         {problem_of(kind, {3, 3, 17, 37}, 64, 3, 1, 1), problem_of(kind, {2, 3, 64, 64}, 32, 3, 1, 1),
          problem_of(kind, {3, 3, 41, 75}, 64, 7, 2, 3), problem_of(kind, {2, 3, 67, 67}, 96, 11, 4, 2),
          problem_of(kind, {2, 1, 9, 8}, 128, 5, 1, 0), problem_of(kind, {40, 4, 32, 33}, 32, 1, 1, 0)}) {
      for (const precision arithmetic : {precision::tf32, precision::bf16}) {
        for (const bool accumulate : {false, true}) {
          convolution_problem p = shape;
          p.arithmetic = arithmetic;
          p.order = memory_order::nhwc;
          p.accumulates = accumulate && kind == convolution_kind::backward_filter;
          expect_direct_kernel_right(p);
        }
      }
    }
  }
}

// Rows that fill a tile and that do not, aligned and not; groups of 64 and of 32 channels.
TEST_F(convolution_engines, are_right_by_the_kernel_for_planar_filter_gradients) {
  const auto kind = convolution_kind::backward_filter;
  for (const auto& shape :
       {problem_of(kind, {3, 3, 17, 37}, 64, 3, 1, 1), problem_of(kind, {2, 3, 64, 64}, 32, 3, 1, 1),
        problem_of(kind, {3, 1, 30, 51}, 96, 3, 2, 1), problem_of(kind, {3, 3, 41, 75}, 64, 7, 2, 3),
        problem_of(kind, {2, 4, 64, 64}, 128, 7, 2, 3), problem_of(kind, {2, 3, 67, 67}, 64, 11, 4, 2)}) {
    for (const bool accumulate : {false, true}) {
      convolution_problem p = shape;
      p.accumulates = accumulate;
      expect_direct_kernel_right(p);
    }
  }
}

// Depthwise and of several channels in a group, every gradient, in every type and order; sums of one segment
// and of several; a part whose rows have other padding above.
TEST_F(convolution_engines, are_right_by_the_kernels_for_groups) {
  const auto in_groups = [](convolution_problem p, std::int32_t groups) {
    p.attributes.groups = groups;
    p.w.c = p.x.c / groups;
    return p;
  };
  for (const convolution_kind kind : every_kind) {
    for (const auto& shape :
         {in_groups(problem_of(kind, {3, 16, 17, 13}, 16, 3, 1, 1), 16),
          in_groups(problem_of(kind, {2, 40, 56, 56}, 40, 3, 2, 1), 40),
          in_groups(problem_of(kind, {2, 12, 9, 11}, 24, 5, 1, 2), 12),
          in_groups(problem_of(kind, {2, 32, 14, 14}, 64, 3, 1, 1), 4),
          with_rows(in_groups(problem_of(kind, {3, 8, 17, 13}, 8, 3, 1, 1), 8), 9, 1, 8)}) {
      for (const stored_as& way : every_way) {
        for (const bool accumulate : {false, true}) {
          convolution_problem p = shape;
          p.arithmetic = way.arithmetic;
          p.order = way.order;
          p.accumulates = accumulate && kind == convolution_kind::backward_filter;
          const tally count = run_recipes(gpu(), p, convolution_method::direct, 1, 2);
          EXPECT_EQ(count.ran, 1U) << signature_of(p);
          EXPECT_EQ(count.accurate, count.ran) << signature_of(p);
        }
      }
    }
  }
}

// Rows in one and in several segments, that end within a fragment, in one step and in several; taps that
// a block takes row by row; several groups of channels of each, and a part of one.
TEST_F(convolution_engines, are_right_by_the_kernel_for_deep_filter_gradients) {
  const auto kind = convolution_kind::backward_filter;
  for (const auto& shape :
       {problem_of(kind, {3, 64, 17, 37}, 64, 3, 1, 1), problem_of(kind, {2, 128, 14, 9}, 64, 3, 1, 0),
        problem_of(kind, {2, 64, 11, 57}, 192, 3, 1, 1), problem_of(kind, {1, 64, 40, 100}, 64, 3, 1, 2),
        problem_of(kind, {3, 64, 27, 27}, 128, 5, 1, 2), problem_of(kind, {2, 64, 1, 8}, 64, 3, 1, 1),
        problem_of(kind, {2, 84, 9, 19}, 64, 3, 1, 1)}) {
    for (const bool accumulate : {false, true}) {
      convolution_problem p = shape;
      p.arithmetic = precision::tf32;
      p.order = memory_order::nhwc;
      p.accumulates = accumulate;
      expect_direct_kernel_right(p);
    }
  }
}

TEST_F(convolution_engines, are_right_by_the_kernel_for_deep_filter_gradients_of_packed_operands) {
  convolution_problem p = problem_of(convolution_kind::backward_filter, {6, 3, 68, 52}, 64, 11, 4, 2);
  p.arithmetic = precision::tf32;
  p.order = memory_order::nhwc;
  for (const bool accumulate : {false, true}) {
    for (const std::int64_t parts : {1, 3}) {
      p.accumulates = accumulate;
      bool reached = false;
      visit_recipes(gpu(), p, convolution_method::packed, parts, [&](const convolution_recipe& recipe) {
        reached = recipe.engine_family == "packed kernel";
        return false;
      });
      EXPECT_TRUE(reached) << name_of(p, convolution_method::packed, parts);
      const tally count = run_recipes(gpu(), p, convolution_method::packed, parts, 1);
      EXPECT_EQ(count.ran, 1U) << name_of(p, convolution_method::packed, parts);
      EXPECT_EQ(count.accurate, count.ran) << name_of(p, convolution_method::packed, parts);
    }
  }
}

TEST_F(convolution_engines, add_to_a_filter_gradient) {
  for (const auto& shape : {problem_of(convolution_kind::backward_filter, {6, 16, 9, 9}, 24, 3, 1, 1),
                            problem_of(convolution_kind::backward_filter, {6, 3, 19, 19}, 16, 7, 2, 3)}) {
    convolution_problem p = shape;
    p.accumulates = true;
    expect_methods_right(p);
  }
}

TEST_F(convolution_engines, keep_to_the_cap_by_cutting_the_batch) {
  auto p = problem_of(convolution_kind::forward, {32, 64, 28, 28}, 64, 3, 1, 1);
  const engine free = choose_engine(gpu(), p, 1 * GiB);
  const byte_count tight = 6 * MiB;
  const engine capped = choose_engine(gpu(), p, tight);
  EXPECT_LE(capped.choice.workspace_bytes, tight);
  EXPECT_LE(free.choice.workspace_bytes, 1 * GiB);
  for (const engine& chosen : {free, capped}) {
    SCOPED_TRACE(chosen.choice.engine);
    operands at(p, chosen.choice.workspace_bytes);
    at.run(gpu(), chosen);
    EXPECT_LE(relative_error(at.result(), at.expected(p)), tolerance_of(p.arithmetic));
  }
}

TEST_F(convolution_engines, are_found_again_and_give_the_same_bits) {
  for (const convolution_kind kind : every_kind) {
    for (const stored_as& way : every_way) {
      auto p = problem_of(kind, {6, 32, 14, 14}, 32, 3, 1, 1);
      p.arithmetic = way.arithmetic;
      p.order = way.order;
      const engine first = choose_engine(gpu(), p, workspace_cap);
      const auto found = find_recipe(gpu(), p, first.choice);  // as another process finds it
      ASSERT_TRUE(found) << first.choice.engine;
      EXPECT_EQ(found->workspace_bytes, first.choice.workspace_bytes);
      const engine second{first.choice, found->bind};
      operands at(p, first.choice.workspace_bytes);
      std::vector<std::vector<std::byte>> results;
      for (const engine& chosen : {first, first, second}) {
        at.run(gpu(), chosen);
        results.push_back(at.bytes_of_result());
      }
      EXPECT_EQ(results[0], results[1]) << first.choice.engine;
      EXPECT_EQ(results[0], results[2]) << first.choice.engine;
    }
  }
}

// Searched in full for the first batch, and among those like the winner for the others.
TEST_F(convolution_engines, begin_with_what_won_for_another_batch) {
  cuda_options options = gpu().options();
  options.brief_search = false;
  options.engine_cache += ".full";
  session searching(0, options);
  for (const std::int64_t batch : {32, 16, 12}) {
    auto p = problem_of(convolution_kind::forward, {batch, 64, 28, 28}, 64, 3, 1, 1);
    p.arithmetic = precision::tf32;
    p.order = memory_order::nhwc;
    const engine chosen = choose_engine(searching, p, workspace_cap);
    SCOPED_TRACE(chosen.choice.engine);
    operands at(p, chosen.choice.workspace_bytes);
    at.run(searching, chosen);
    EXPECT_LE(relative_error(at.result(), at.expected(p)), tolerance_of(p.arithmetic));
  }
  EXPECT_EQ(searching.precedents().size(), 1U);
  std::filesystem::remove(options.engine_cache);
}

using operator_times = on_gpu;

TEST_F(operator_times, leave_out_what_events_between_brief_calls_take) {
  const arena data = device_arena(managed_block);
  const auto call = [&] { kernels::fill_random(gpu().compute(), data.data(), 1024, dtype::f32, 1); };
  const nanoseconds between_events = median_time(gpu(), call, 1, 1);
  EXPECT_LT(median_time(gpu(), call, 1, 20) * 3, between_events * 2);
}

TEST(names_of_engines, tell_method_and_family) {
  EXPECT_EQ(method_of("ConvFwd_eng62_k2=0_k13=1"), convolution_method::plain);
  EXPECT_EQ(method_of("packed ConvFwd_eng4_k2=1 x2"), convolution_method::packed);
  EXPECT_EQ(family_of("fused ConvFwd_1_6_eng4_k2=1_k3=0 x16"), "fused ConvFwd_1_6_eng4");
  EXPECT_EQ(family_of("direct kernel"), "direct kernel");
  EXPECT_NE(family_of("fused ConvFwd_1_6_eng4_k2=1"), family_of("ConvFwd_1_6_eng4_k2=1"));
}

TEST_F(convolution_engines, name_the_method_and_the_parts) {
  const auto p = problem_of(convolution_kind::forward, {4, 16, 8, 8}, 16, 3, 1, 1);
  visit_recipes(gpu(), p, convolution_method::winograd_4x4, 2, [](const convolution_recipe& recipe) {
    EXPECT_EQ(recipe.name, "winograd4x4 product" + std::to_string(recipe.position) + " x2");
    return true;
  });
  EXPECT_FALSE(find_recipe(gpu(), p, {"winograd4x4 product0 x3", 0, 0, 0, 3}));
  EXPECT_FALSE(find_recipe(gpu(), p, {"no such engine", 0, 0, 0, 1}));
}

TEST(parts_of_a_batch, are_divisors_far_apart) {
  convolution_problem p;
  p.x.n = 64;
  EXPECT_EQ(part_counts_of(p), (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 64}));
  p.x.n = 45;
  EXPECT_EQ(part_counts_of(p), (std::vector<std::int64_t>{1, 3, 9, 45}));
  p.x.n = 7;
  EXPECT_EQ(part_counts_of(p), (std::vector<std::int64_t>{1, 7}));
}

class matrix_engines : public on_gpu {};

TEST_F(matrix_engines, are_right_with_every_epilogue) {
  for (const precision arithmetic : {precision::fp32, precision::tf32, precision::bf16}) {
    for (int kind = 0; kind < 3; ++kind) {
      for (int epilogue = 0; epilogue < 4; ++epilogue) {
        for (const bool accumulate : {false, true}) {
          matrix_problem p{static_cast<matrix_kind>(kind),
                           12,
                           40,
                           24,
                           epilogue % 2 == 1,
                           epilogue / 2 == 1,
                           accumulate,
                           arithmetic,
                           16};
          if (p.kind == matrix_kind::backward_data && epilogue != 0) continue;
          if (p.kind == matrix_kind::backward_filter && p.relu) continue;
          if (accumulate && (p.relu || (p.has_bias && p.kind == matrix_kind::forward))) continue;
          SCOPED_TRACE(signature_of(p));
          const engine chosen = choose_engine(gpu(), p, workspace_cap);
          // The same as a convolution of one pixel: its operands and reference serve.
          convolution_problem same{static_cast<convolution_kind>(kind),
                                   {p.n, p.in, 1, 1},
                                   {p.out, p.in, 1, 1},
                                   {p.n, p.out, 1, 1},
                                   {}};
          same.attributes.relu = p.relu;
          same.has_bias = p.has_bias;
          same.accumulates = accumulate;
          same.arithmetic = arithmetic;
          operands at(same, chosen.choice.workspace_bytes);
          at.run(gpu(), chosen, accumulate);
          EXPECT_LE(relative_error(at.result(), at.expected(same)), tolerance_of(arithmetic))
              << chosen.choice.engine;
          if (p.has_bias && p.kind == matrix_kind::backward_filter) {
            EXPECT_LE(relative_error(at.bias(), at.expected_bias(accumulate)), 1e-5) << chosen.choice.engine;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace um::gpu_tests
