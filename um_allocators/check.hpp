// Turns status codes of the CUDA runtime into exceptions with place and meaning.
//     check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
// The libraries' own status types have their overloads in backends/cuda/session.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/errors.hpp"

namespace um {

struct cuda_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns "file:line: library: meaning", with the file's folders left out.
std::string error_text(std::source_location where, std::string_view library, std::string_view meaning);

// Throws out_of_memory for a failed allocation, cuda_error for any other failure. A failure that
// leaves the context usable is cleared, so that the next call does not report it again.
void check(cudaError_t status, std::source_location where = std::source_location::current());

// Throws unsupported with the reason if this process cannot use GPU `device`.
void require_gpu(int device);
int device_attribute(cudaDeviceAttr what, int device);

}  // namespace um
