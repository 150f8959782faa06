// check() for the status types of cuDNN and cuBLAS, beside the runtime's in um_allocators.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <source_location>

#include "um_allocators/check.hpp"

namespace um {

void check(cudnnStatus_t status, std::source_location where = std::source_location::current());
void check(cublasStatus_t status, std::source_location where = std::source_location::current());

}  // namespace um
