// Checks the status types of cuDNN and cuBLAS. um_allocators checks the runtime's.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <source_location>

#include "um_allocators/check.hpp"

namespace um {

void check(cudnnStatus_t status, std::source_location where = std::source_location::current());
void check(cublasStatus_t status, std::source_location where = std::source_location::current());

}  // namespace um
