#include "backends/cuda/library_check.hpp"

namespace um {

void check(cudnnStatus_t status, std::source_location where) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string meaning = cudnnGetErrorString(status);
  if (status == CUDNN_STATUS_ALLOC_FAILED) throw out_of_memory(error_text(where, "cuDNN", meaning));
  throw cuda_error(error_text(where, "cuDNN", meaning));
}

void check(cublasStatus_t status, std::source_location where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string meaning = cublasLtGetStatusString(status);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw out_of_memory(error_text(where, "cuBLASLt", meaning));
  throw cuda_error(error_text(where, "cuBLASLt", meaning));
}

}  // namespace um
