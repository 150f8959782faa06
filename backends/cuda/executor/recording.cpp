#include "backends/cuda/executor/recording.hpp"

#include <stdexcept>

namespace um {
namespace {

using recorded_graph = handle<cudaGraph_t, &cudaGraphDestroy>;

// Ends the capture. Returns no graph if it is invalid.
recorded_graph end_capture(cudaStream_t stream) {
  cudaGraph_t raw = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream, &raw);
  recorded_graph graph(raw);
  if (status == cudaSuccess) return graph;
  static_cast<void>(cudaGetLastError());
  return {};
}

}  // namespace

recording record(cudaStream_t stream, const std::function<void()>& issue) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  bool whole = true;
  try {
    issue();
  } catch (const std::runtime_error&) {  // check() or a library's wrapper threw it
    whole = false;
  }
  const recorded_graph graph = end_capture(stream);
  if (!whole || !graph) return {};
  cudaGraphExec_t raw = nullptr;
  if (cudaGraphInstantiate(&raw, graph.get(), 0) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  recording made(raw);
  // Allocates the graph's device memory, outside of all times; that may fail.
  if (cudaGraphUpload(made.get(), stream) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  check(cudaStreamSynchronize(stream));
  return made;
}

}  // namespace um
