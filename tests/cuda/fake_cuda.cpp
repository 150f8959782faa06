// A CUDA runtime without a GPU, for tests of the executor: memory is host memory, a stream is a thread with a
// queue, and work on it takes a random time. It replaces the functions of the runtime that the executor
// calls.
#include "tests/cuda/fake_cuda.hpp"

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

// One recording of an event.
struct mark {
  std::mutex guard;
  std::condition_variable changed;
  bool reached = false;
  void reach() {
    const std::lock_guard lock(guard);
    reached = true;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(guard);
    changed.wait(lock, [&] { return reached; });
  }
};
struct CUevent_st {
  std::mutex guard;
  std::shared_ptr<mark> last;  // null: never recorded, so nothing to wait for
  std::shared_ptr<mark> get() {
    const std::lock_guard lock(guard);
    return last;
  }
};
struct CUgraph_st {
  std::vector<std::function<void()>> work;
};
struct CUgraphExec_st : CUgraph_st {};

struct CUstream_st {
  std::mutex guard;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool ends = false;
  std::thread worker{[this] { work(); }};

  void put(std::function<void()> one) {
    const std::lock_guard lock(guard);
    queue.push_back(std::move(one));
    changed.notify_one();
  }
  void work() {
    for (unsigned random = 1;; random = random * 1664525U + 1013904223U) {
      std::function<void()> one;
      {
        std::unique_lock lock(guard);
        changed.wait(lock, [&] { return ends || !queue.empty(); });
        if (queue.empty()) return;
        one = std::move(queue.front());
        queue.pop_front();
      }
      if (random >> 29 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random >> 20 & 127));
      one();
    }
  }
};

namespace {

thread_local CUgraph_st* recorded = nullptr;

void finish(cudaStream_t s) {
  mark end;
  s->put([&] { end.reach(); });
  end.wait();
}

std::mutex all_guard;
std::vector<cudaStream_t> all_streams;

}  // namespace

namespace um::testing {

void put_on(cudaStream_t s, std::function<void()> work) {
  if (recorded != nullptr) {
    recorded->work.push_back(std::move(work));
  } else {
    s->put(std::move(work));
  }
}

}  // namespace um::testing

using um::testing::put_on;

extern "C" {

cudaError_t cudaMalloc(void** to, size_t bytes) {
  return *to = std::malloc(bytes), cudaSuccess;
}
cudaError_t cudaMallocHost(void** to, size_t bytes) {
  return cudaMalloc(to, bytes);
}
cudaError_t cudaMallocManaged(void** to, size_t bytes, unsigned) {
  return cudaMalloc(to, bytes);
}
cudaError_t cudaFree(void* data) {
  return std::free(data), cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  return cudaFree(data);
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return *free = *total = size_t{1} << 40, cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}
cudaError_t cudaMemset(void* to, int byte, size_t bytes) {
  return std::memset(to, byte, bytes), cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t stream) {
  return put_on(stream, [=] { std::memset(to, byte, bytes); }), cudaSuccess;
}
cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, cudaMemLocation) {
  return cudaSuccess;
}
cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation to, unsigned, cudaStream_t stream) {
  put_on(stream, [] {});
  if (to.type == cudaMemLocationTypeHost) finish(stream);  // as the driver does
  return cudaSuccess;
}
cudaError_t cudaMemPrefetchBatchAsync(void**, size_t*, size_t, cudaMemLocation*, size_t*, size_t,
                                      unsigned long long, cudaStream_t) {
  return cudaErrorNotSupported;
}
cudaError_t cudaMemDiscardBatchAsync(void** data, size_t* bytes, size_t count, unsigned long long,
                                     cudaStream_t stream) {
  for (size_t i = 0; i < count; ++i) cudaMemsetAsync(data[i], 0xff, bytes[i], stream);
  return cudaSuccess;
}
cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void**, size_t*, size_t, cudaMemLocation*, size_t*, size_t,
                                                unsigned long long, cudaStream_t) {
  return cudaErrorNotSupported;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* to, unsigned, int) {
  const std::lock_guard lock(all_guard);
  return all_streams.push_back(*to = new CUstream_st), cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  {
    const std::lock_guard lock(all_guard);
    std::erase(all_streams, s);
  }
  {
    const std::lock_guard lock(s->guard);
    s->ends = true;
    s->changed.notify_one();
  }
  s->worker.join();
  delete s;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  return finish(s), cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(all_guard);
  for (const cudaStream_t s : all_streams) finish(s);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  if (const auto last = e->get()) put_on(s, [last] { last->wait(); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* to, unsigned) {
  return *to = new CUevent_st, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  return delete e, cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  const auto now = std::make_shared<mark>();
  {
    const std::lock_guard lock(e->guard);
    e->last = now;
  }
  put_on(s, [now] { now->reach(); });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  if (const auto last = e->get()) last->wait();
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  return *ms = 1, cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return recorded = new CUgraph_st, cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* to) {
  *to = recorded;
  recorded = nullptr;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* to, cudaGraph_t from, unsigned long long) {
  return *to = new CUgraphExec_st{*from}, cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  for (const auto& work : graph->work) put_on(stream, work);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return delete graph, cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return delete graph, cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  return *count = 1, cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) {
  return "error";
}
const char* cudaGetErrorString(cudaError_t) {
  return "error of the fake runtime";
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  return *value = 1, cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = *greatest = 0, cudaSuccess;
}
}
