#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "backends/cuda/convolution_kernels.hpp"
#include "backends/cuda/convolution_recipes.hpp"
#include "backends/cuda/cublas_descriptors.hpp"

namespace um {
namespace {

// Batches of f32 matrix products of equal shape on cuBLASLt. The matrices are contiguous.

// d = op(a) op(b) in column-major terms: d is rows x columns, and the sum runs over `depth`.
struct batched_product {
  // `count` products of rows x depth and depth x columns.
  std::int64_t rows = 1, columns = 1, depth = 1, count = 1;
  bool transpose_a = false, transpose_b = false;
};

struct batched_algorithm {
  cublasLtMatmulAlgo_t algorithm{};
  byte_count workspace_bytes = 0;
};

struct description {
  matmul_description description;
  matrix_layout a, b, d;
};

matrix_layout make_batch(std::int64_t rows, std::int64_t columns, std::int64_t count) {
  matrix_layout made = make_layout(dtype::f32, rows, columns);
  set_attribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(count));
  set_attribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
  return made;
}

description describe_batch(const batched_product& p) {
  description made{
      make_matmul_description(CUBLAS_COMPUTE_32F),
      p.transpose_a ? make_batch(p.depth, p.rows, p.count) : make_batch(p.rows, p.depth, p.count),
      p.transpose_b ? make_batch(p.columns, p.depth, p.count) : make_batch(p.depth, p.columns, p.count),
      make_batch(p.rows, p.columns, p.count)};
  if (p.transpose_a) set_attribute(made.description, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (p.transpose_b) set_attribute(made.description, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_T);
  return made;
}

// Returns the algorithms that cuBLASLt proposes within the cap, the likeliest first. Every process on one
// machine gets the same ones.
std::vector<batched_algorithm> proposed_algorithms(session& gpu, const batched_product& problem,
                                                   byte_count cap) {
  const description made = describe_batch(problem);
  const matmul_preference preference = make_preference(cap, 16);
  std::array<cublasLtMatmulHeuristicResult_t, 16> found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      gpu.cublas(), made.description.get(), made.a.get(), made.b.get(), made.d.get(), made.d.get(),
      preference.get(), static_cast<int>(found.size()), found.data(), &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status);
  std::vector<batched_algorithm> all;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    if (found[i].state == CUBLAS_STATUS_SUCCESS) all.push_back({found[i].algo, found[i].workspaceSize});
  }
  return all;
}

// The operands are a, b and d, in this order.
kernel_call bind(session& gpu, const batched_product& problem, const batched_algorithm& algorithm,
                 const bound_operands& operands) {
  return [made = std::make_shared<const description>(describe_batch(problem)), algorithm, operands,
          library = gpu.cublas(), stream = gpu.compute().stream] {
    const float alpha = 1.0F, beta = 0.0F;
    check(cublasLtMatmul(library, made->description.get(), &alpha, operands.data[0], made->a.get(),
                         operands.data[1], made->b.get(), &beta, operands.data[2], made->d.get(),
                         operands.data[2], made->d.get(), &algorithm.algorithm, operands.workspace,
                         algorithm.workspace_bytes, stream));
  };
}

constexpr std::int64_t tile = 4;
constexpr std::int64_t taps = kernels::winograd_elements;
// The cap is a constant, so that proposals do not depend on the user's workspace cap.
constexpr byte_count product_workspace_cap = 32 * MiB;

// One part of a convolution, as transforms and a batch of products.
struct winograd_sizes {
  convolution_kind kind = convolution_kind::forward;
  dims filter;
  memory_order order = memory_order::nchw;
  // Of x, or dy for the data gradient; and of y, dx, or, for the filter gradient, dy.
  kernels::winograd_tiles input_tiles, output_tiles;
  batched_product product;
};

kernels::winograd_tiles tiles_of(const dims& shape, const dims& result, std::int64_t pad_h,
                                 std::int64_t pad_w, memory_order order) {
  return {shape, (result.h + tile - 1) / tile, (result.w + tile - 1) / tile, pad_h, pad_w, order, 1};
}

// Returns the number of segments of the tiles that are summed separately, so that a gradient of few channels
// fills the device. It depends on shapes alone, since it decides the order of sums.
std::int64_t segments_of(const dims& filter, std::int64_t tiles) {
  constexpr std::int64_t side = 64, wanted_blocks = 1024, min_tiles = 256;
  const std::int64_t blocks = taps * ((filter.n + side - 1) / side) * ((filter.c + side - 1) / side);
  std::int64_t segments = 1;
  while (segments * blocks < wanted_blocks && tiles % (segments * 2) == 0 &&
         tiles / (segments * 2) >= min_tiles) {
    segments *= 2;
  }
  return segments;
}

// [e][out][tile] = [e][out][in] [e][in][tile], in column-major terms.
batched_product product_of_tiles(std::int64_t in, std::int64_t out, std::int64_t tiles, memory_order order) {
  if (order == memory_order::nchw) return {tiles, out, in, taps, false, false};
  return {out, tiles, in, taps, true, false};
}

winograd_sizes winograd_sizes_of(const convolution_problem& p, std::int64_t parts) {
  dims x = p.x, y = p.y;
  x.n /= parts;
  y.n /= parts;
  winograd_sizes made{p.kind, p.w, p.order, {}, {}, {}};
  switch (p.kind) {
    case convolution_kind::forward:
      made.input_tiles = tiles_of(x, y, p.attributes.pad_h, p.attributes.pad_w, p.order);
      made.output_tiles = tiles_of(y, y, 0, 0, p.order);
      made.product = product_of_tiles(p.w.c, p.w.n, made.input_tiles.count(), p.order);
      break;
    case convolution_kind::backward_data:
      made.input_tiles = tiles_of(y, x, 2 - p.attributes.pad_h, 2 - p.attributes.pad_w, p.order);
      made.output_tiles = tiles_of(x, x, 0, 0, p.order);
      made.product = product_of_tiles(p.w.n, p.w.c, made.input_tiles.count(), p.order);
      break;
    case convolution_kind::backward_filter: {
      made.input_tiles = tiles_of(x, y, p.attributes.pad_h, p.attributes.pad_w, p.order);
      made.output_tiles = tiles_of(y, y, 0, 0, p.order);
      const std::int64_t tiles = made.input_tiles.count(), segments = segments_of(p.w, tiles);
      made.input_tiles.segments = made.output_tiles.segments = segments;
      const bool nchw = p.order == memory_order::nchw;
      made.product = {p.w.c, p.w.n, tiles / segments, taps * segments, nchw, !nchw};
      break;
    }
  }
  return made;
}

byte_count matrix_bytes(std::int64_t a, std::int64_t b, std::int64_t count) {
  return round_up(static_cast<byte_count>(a * b * count) * sizeof(float), arena_alignment);
}

// Offsets in the workspace, which holds the product's two operands, its result and its workspace.
struct workspace_layout {
  byte_count second_operand = 0, result = 0, product_workspace = 0, end = 0;
};

workspace_layout workspace_layout_of(const winograd_sizes& s, byte_count product_workspace) {
  const batched_product& g = s.product;
  workspace_layout made;
  if (s.kind == convolution_kind::backward_filter) {
    made.second_operand = matrix_bytes(g.rows, g.depth, g.count);
    made.result = made.second_operand + matrix_bytes(g.columns, g.depth, g.count);
  } else {
    made.second_operand = matrix_bytes(s.filter.n, s.filter.c, taps);
    made.result = made.second_operand + matrix_bytes(s.input_tiles.shape.c, s.input_tiles.count(), taps);
  }
  made.product_workspace = made.result + matrix_bytes(g.rows, g.columns, g.count);
  made.end = made.product_workspace + product_workspace;
  return made;
}

float* as_floats(std::byte* at) {
  return reinterpret_cast<float*>(at);
}

// Transforms filter and tiles, multiplies, transforms results. `in` and `out` are one part's.
kernel_call bind_tiles(session& gpu, const winograd_sizes& s, const batched_algorithm& algorithm,
                       std::byte* workspace, const float* in, float* out, const float* b, bool relu) {
  const workspace_layout at = workspace_layout_of(s, algorithm.workspace_bytes);
  std::byte *const filter = workspace, *const tiles = workspace + at.second_operand,
                   *const result = workspace + at.result;
  const bool nchw = s.order == memory_order::nchw;
  const bound_operands operands{{nchw ? tiles : filter, nchw ? filter : tiles, result},
                                workspace + at.product_workspace};
  return [where = gpu.compute(), product = bind(gpu, s.product, algorithm, operands), s,
          tiles = as_floats(tiles), result = as_floats(result), in, out, b, relu] {
    kernels::winograd_input(where, in, tiles, s.input_tiles);
    product();
    kernels::winograd_output(where, result, out, b, relu, s.output_tiles);
  };
}

kernel_call bind_gradient(session& gpu, const winograd_sizes& s, const batched_algorithm& algorithm,
                          std::byte* workspace, const float* x, const float* dy, float* dw, bool add) {
  const workspace_layout at = workspace_layout_of(s, algorithm.workspace_bytes);
  std::byte *const inputs = workspace, *const gradients = workspace + at.second_operand,
                   *const result = workspace + at.result;
  const bound_operands operands{{inputs, gradients, result}, workspace + at.product_workspace};
  return [where = gpu.compute(), product = bind(gpu, s.product, algorithm, operands), s,
          inputs = as_floats(inputs), gradients = as_floats(gradients), result = as_floats(result), x, dy, dw,
          add] {
    kernels::winograd_input(where, x, inputs, s.input_tiles);
    kernels::winograd_output_gradient(where, dy, gradients, s.output_tiles);
    product();
    kernels::winograd_filter_gradient(where, result, dw, s.filter, s.order, s.input_tiles.segments, add);
  };
}

kernel_call bind_parts(session& gpu, const convolution_problem& p, std::int64_t parts,
                       const batched_algorithm& algorithm, const bound_operands& operands) {
  const winograd_sizes s = winograd_sizes_of(p, parts);
  const std::int64_t x_step = element_count(p.x) / parts, y_step = element_count(p.y) / parts;
  float *const x = as_floats(operands.data.at(0)), *const w = as_floats(operands.data.at(1)),
               *const y = as_floats(operands.data.at(2));
  const float* const b = p.has_bias ? as_floats(operands.data.at(3)) : nullptr;
  std::vector<kernel_call> calls;
  for (std::int64_t i = 0; i < parts; ++i) {
    float *const xi = x + i * x_step, *const yi = y + i * y_step;
    switch (p.kind) {
      case convolution_kind::forward:
        calls.push_back(bind_tiles(gpu, s, algorithm, operands.workspace, xi, yi, b, p.attributes.relu));
        break;
      case convolution_kind::backward_data:
        calls.push_back(bind_tiles(gpu, s, algorithm, operands.workspace, yi, xi, nullptr, false));
        break;
      case convolution_kind::backward_filter:
        calls.push_back(
            bind_gradient(gpu, s, algorithm, operands.workspace, xi, yi, w, p.accumulates || i > 0));
        break;
    }
  }
  return [where = gpu.compute(), calls = std::move(calls), p, w, filter = as_floats(operands.workspace)] {
    if (p.kind != convolution_kind::backward_filter) {
      kernels::winograd_filter(where, w, filter, p.w, p.order, p.kind == convolution_kind::backward_data);
    }
    for (const kernel_call& call : calls) call();
  };
}

}  // namespace

bool winograd_applies(const convolution_problem& p) {
  constexpr std::int64_t min_channels = 16;  // with fewer channels, transforms cost more than they save
  return p.arithmetic == precision::fp32 && p.attributes.groups == 1 && p.w.h == 3 && p.w.w == 3 &&
         p.attributes.stride_h == 1 && p.attributes.stride_w == 1 && p.attributes.pad_h <= 2 &&
         p.attributes.pad_w <= 2 && p.w.c >= min_channels && p.w.n >= min_channels;
}

void visit_winograd(session& gpu, const convolution_problem& p, std::int64_t parts,
                    const std::function<bool(const convolution_recipe&)>& visit) {
  constexpr std::size_t max_algorithms = 4;
  const winograd_sizes s = winograd_sizes_of(p, parts);
  const std::int64_t pairs = std::max(s.input_tiles.count() * s.input_tiles.shape.c,
                                      s.output_tiles.count() * s.output_tiles.shape.c);
  if (pairs >= std::int64_t{1} << 31) return;
  const auto proposed = proposed_algorithms(gpu, s.product, product_workspace_cap);
  for (std::size_t i = 0; i < std::min(proposed.size(), max_algorithms); ++i) {
    const convolution_recipe recipe{
        "product" + std::to_string(i),
        "product",
        static_cast<std::int64_t>(i),
        parts,
        workspace_layout_of(s, proposed[i].workspace_bytes).end,
        [&gpu, p, parts, algorithm = proposed[i]](const bound_operands& operands) {
          return bind_parts(gpu, p, parts, algorithm, operands);
        }};
    if (!visit(recipe)) return;
  }
}

}  // namespace um
