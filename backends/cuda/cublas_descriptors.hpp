// Owners of cuBLASLt's descriptors.
#pragma once

#include <cublasLt.h>

#include <cstdint>

#include "backends/cuda/session.hpp"
#include "core/tensor.hpp"
#include "um_allocators/handle.hpp"

namespace um {

using matmul_description = handle<cublasLtMatmulDesc_t, &cublasLtMatmulDescDestroy>;
using matrix_layout = handle<cublasLtMatrixLayout_t, &cublasLtMatrixLayoutDestroy>;
using matmul_preference = handle<cublasLtMatmulPreference_t, &cublasLtMatmulPreferenceDestroy>;

template <class Value>
void set_attribute(const matmul_description& to, cublasLtMatmulDescAttributes_t attribute,
                   const Value& value) {
  check(cublasLtMatmulDescSetAttribute(to.get(), attribute, &value, sizeof value));
}
template <class Value>
void set_attribute(const matmul_preference& to, cublasLtMatmulPreferenceAttributes_t attribute,
                   const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(to.get(), attribute, &value, sizeof value));
}
template <class Value>
void set_attribute(const matrix_layout& to, cublasLtMatrixLayoutAttribute_t attribute, const Value& value) {
  check(cublasLtMatrixLayoutSetAttribute(to.get(), attribute, &value, sizeof value));
}

// Sums are fp32.
inline matmul_description make_matmul_description(cublasComputeType_t compute_type) {
  cublasLtMatmulDesc_t descriptor = nullptr;
  check(cublasLtMatmulDescCreate(&descriptor, compute_type, CUDA_R_32F));
  return matmul_description(descriptor);
}

// The matrix is column-major, without gaps.
inline matrix_layout make_layout(dtype type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t descriptor = nullptr;
  check(cublasLtMatrixLayoutCreate(&descriptor, type == dtype::bf16 ? CUDA_R_16BF : CUDA_R_32F,
                                   static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                   rows));
  return matrix_layout(descriptor);
}

inline matmul_preference make_preference(byte_count workspace_cap, std::uint32_t alignment) {
  cublasLtMatmulPreference_t descriptor = nullptr;
  check(cublasLtMatmulPreferenceCreate(&descriptor));
  matmul_preference made(descriptor);
  set_attribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::size_t>(workspace_cap));
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set_attribute(made, operand, alignment);
  }
  return made;
}

}  // namespace um
