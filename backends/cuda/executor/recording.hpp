// Work that is recorded once as a CUDA graph and launched by one call each time.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "um_allocators/handle.hpp"

namespace um {

using recording = handle<cudaGraphExec_t, &cudaGraphExecDestroy>;

// Records the work that `issue` puts on `stream`, and on other streams between a fork from it and a join to
// it. Nothing runs. The recording is empty if something cannot be recorded (a library that waits or
// allocates): `stream` and the context are as before, and the work may be issued directly instead. Run
// kernels once before: loading them during a recording fails with some drivers.
recording record(cudaStream_t stream, const std::function<void()>& issue);

}  // namespace um
