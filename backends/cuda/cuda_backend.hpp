// Runs operators on a real GPU by cuDNN, cuBLASLt and umbench's own kernels, and plans on three streams. It
// is built with UM_CUDA only. This header does not include CUDA's.
#pragma once

#include <memory>

#include "backends/backend.hpp"
#include "backends/cuda/cuda_options.hpp"

namespace um {

// Throws unsupported if there is no such device or no driver for it, cuda_error if it fails.
std::unique_ptr<backend> open_cuda(int device, const cuda_options& options = {});

}  // namespace um
