// The backend of a real GPU: operators by cuDNN, cuBLASLt and umbench's own kernels, plans on three
// streams. Built with UM_CUDA only; this header does not include CUDA's.
#pragma once

#include <memory>

#include "backends/backend.hpp"
#include "backends/cuda/cuda_options.hpp"

namespace um {

// Throws unsupported if there is no such device or no driver for it, cuda_error if it fails.
std::unique_ptr<backend> open_cuda(int device, const cuda_options& options = {});

}  // namespace um
