// Definitions of the functions of cuBLASLt that umbench uses, which forward to the library when it is opened.
#include <cublasLt.h>

#include "backends/cuda/lazy_library.hpp"

using um::cublas;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return um::forward_to<&cublasLtCreate>(cublas, "cublasLtCreate", handle);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return um::forward_to<&cublasLtDestroy>(cublas, "cublasLtDestroy", handle);
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return um::forward_to<&cublasLtGetStatusString>(cublas, "cublasLtGetStatusString", status);
}
size_t cublasLtGetVersion() {
  return um::forward_to<&cublasLtGetVersion>(cublas, "cublasLtGetVersion");
}
cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int* value) {
  return um::forward_to<&cublasLtGetProperty>(cublas, "cublasLtGetProperty", type, value);
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t compute, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  return um::forward_to<&cublasLtMatmul>(cublas, "cublasLtMatmul", handle, compute, alpha, a, a_layout, b,
                                         b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace,
                                         workspace_bytes, stream);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  return um::forward_to<&cublasLtMatmulAlgoGetHeuristic>(cublas, "cublasLtMatmulAlgoGetHeuristic", handle,
                                                         operation, a, b, c, d, preference, wanted, results,
                                                         found);
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return um::forward_to<&cublasLtMatmulDescCreate>(cublas, "cublasLtMatmulDescCreate", made, compute, scale);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  return um::forward_to<&cublasLtMatmulDescDestroy>(cublas, "cublasLtMatmulDescDestroy", descriptor);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              size_t bytes) {
  return um::forward_to<&cublasLtMatmulDescSetAttribute>(cublas, "cublasLtMatmulDescSetAttribute", descriptor,
                                                         attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  return um::forward_to<&cublasLtMatmulPreferenceCreate>(cublas, "cublasLtMatmulPreferenceCreate", made);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return um::forward_to<&cublasLtMatmulPreferenceDestroy>(cublas, "cublasLtMatmulPreferenceDestroy",
                                                          preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  return um::forward_to<&cublasLtMatmulPreferenceSetAttribute>(cublas, "cublasLtMatmulPreferenceSetAttribute",
                                                               preference, attribute, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  return um::forward_to<&cublasLtMatrixLayoutCreate>(cublas, "cublasLtMatrixLayoutCreate", made, type, rows,
                                                     columns, leading);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return um::forward_to<&cublasLtMatrixLayoutDestroy>(cublas, "cublasLtMatrixLayoutDestroy", layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  return um::forward_to<&cublasLtMatrixLayoutSetAttribute>(cublas, "cublasLtMatrixLayoutSetAttribute", layout,
                                                           attribute, value, bytes);
}
