// A CUDA runtime without a GPU (fake_cuda.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace um::testing {

// Puts work on a stream, or into the graph that the calling thread records.
void put_on(cudaStream_t s, std::function<void()> work);

}  // namespace um::testing
