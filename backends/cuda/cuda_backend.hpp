// The backend of a real GPU: operators on cuDNN, cuBLASLt and kernels of our own, plans executed
// on three streams. Built with UM_CUDA only; nothing of CUDA shows in this header.
#pragma once

#include <memory>

#include "backends/backend.hpp"
#include "backends/cuda/cuda_options.hpp"

namespace um {

// Throws unsupported if there is no such device or no driver for it, cuda_error if it fails.
std::unique_ptr<backend> open_cuda(int device, const cuda_options& options = {});

}  // namespace um
