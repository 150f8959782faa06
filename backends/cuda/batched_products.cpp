#include "backends/cuda/batched_products.hpp"

#include <array>
#include <memory>

#include "backends/cuda/cublas_descriptors.hpp"

namespace um {
namespace {

struct description {
  matmul_description how;
  matrix_layout a, b, d;
};

matrix_layout make_batch(std::int64_t rows, std::int64_t columns, std::int64_t count) {
  matrix_layout made = make_layout(dtype::f32, rows, columns);
  set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(count));
  set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
  return made;
}

description describe(const batched_product& p) {
  description made{
      make_matmul_description(CUBLAS_COMPUTE_32F),
      p.transpose_a ? make_batch(p.depth, p.rows, p.count) : make_batch(p.rows, p.depth, p.count),
      p.transpose_b ? make_batch(p.columns, p.depth, p.count) : make_batch(p.depth, p.columns, p.count),
      make_batch(p.rows, p.columns, p.count)};
  if (p.transpose_a) set(made.how, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (p.transpose_b) set(made.how, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_T);
  return made;
}

}  // namespace

std::vector<batched_algorithm> proposed_algorithms(session& gpu, const batched_product& problem,
                                                   byte_count cap) {
  const description made = describe(problem);
  const matmul_preference preference = make_preference(cap, 16);
  std::array<cublasLtMatmulHeuristicResult_t, 16> found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      gpu.cublas(), made.how.get(), made.a.get(), made.b.get(), made.d.get(), made.d.get(), preference.get(),
      static_cast<int>(found.size()), found.data(), &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status);
  std::vector<batched_algorithm> all;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    if (found[i].state == CUBLAS_STATUS_SUCCESS) all.push_back({found[i].algo, found[i].workspaceSize});
  }
  return all;
}

kernel_call bind(session& gpu, const batched_product& problem, const batched_algorithm& algorithm,
                 const bound_operands& operands) {
  return [made = std::make_shared<const description>(describe(problem)), algorithm, operands,
          library = gpu.cublas(), stream = gpu.compute().stream] {
    const float alpha = 1.0F, beta = 0.0F;
    check(cublasLtMatmul(library, made->how.get(), &alpha, operands.data[0], made->a.get(), operands.data[1],
                         made->b.get(), &beta, operands.data[2], made->d.get(), operands.data[2],
                         made->d.get(), &algorithm.algorithm, operands.workspace, algorithm.workspace_bytes,
                         stream));
  };
}

}  // namespace um
