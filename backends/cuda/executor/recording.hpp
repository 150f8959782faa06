// Work recorded once as a CUDA graph and launched as often as wanted, by one call each time.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "um_allocators/handle.hpp"

namespace um {

using recording = handle<cudaGraphExec_t, &cudaGraphExecDestroy>;

// Records what `issue` puts on `on`, and on other streams between a fork from and a join to it;
// nothing runs. Empty if something in it cannot be recorded (a library that waits or allocates):
// `on` and the context are as before, and the work may be issued directly instead. Kernels that have
// never run before may be loaded meanwhile, which not every driver allows, so run them first.
recording record(cudaStream_t on, const std::function<void()>& issue);

}  // namespace um
