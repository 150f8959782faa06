#include <cuda_runtime_api.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "measure/families.hpp"

namespace um::measure {
namespace {

constexpr std::array<const char*, 6> kind_names{"device",      "managed",      "pinned",
                                                "device_pool", "managed_pool", "system"};
constexpr std::array<const char*, 3> allocation_steps{"allocate", "first_use", "free"};

using memory_pool = handle<cudaMemPool_t, &cudaMemPoolDestroy>;

// Makes a pool that keeps freed memory, like the allocators of frameworks.
memory_pool make_pool(memory_kind kind, int device) {
  cudaMemPoolProps wanted{};
  wanted.allocType = cudaMemAllocationTypePinned;
  wanted.location.type = cudaMemLocationTypeDevice;
  wanted.location.id = device;
  if (kind == memory_kind::managed_pool) {
#if CUDART_VERSION >= 13000
    wanted.allocType = cudaMemAllocationTypeManaged;
#else
    throw unsupported("pools of managed memory need CUDA 13 or later");
#endif
  }
  cudaMemPool_t raw = nullptr;
  const cudaError_t status = cudaMemPoolCreate(&raw, &wanted);
  if (status == cudaErrorNotSupported || status == cudaErrorInvalidValue) {
    static_cast<void>(cudaGetLastError());
    throw unsupported(std::string("the driver makes no pools of ") +
                      (kind == memory_kind::managed_pool ? "managed" : "device") + " memory");
  }
  check(status);
  memory_pool pool(raw);
  std::uint64_t keep = ~std::uint64_t{0};
  check(cudaMemPoolSetAttribute(raw, cudaMemPoolAttrReleaseThreshold, &keep));
  return pool;
}

footprint footprint_of(memory_kind kind, byte_count bytes, bool pageable) {
  switch (kind) {
    case memory_kind::device:
    case memory_kind::device_pool:
      return {bytes, 0};
    case memory_kind::pinned:
      return {0, bytes};
    case memory_kind::managed:
    case memory_kind::managed_pool:
      return {bytes, bytes};
    case memory_kind::system:
      break;
  }
  return {pageable ? bytes : 0, bytes};
}

// Allocates and frees memory of one kind, to time these calls.
class timed_allocation {
 public:
  timed_allocation(bench& on, memory_kind kind, byte_count bytes)
      : bench_(on),
        kind_(kind),
        bytes_(bytes),
        lease_(on.ledger().grant(footprint_of(kind, bytes, on.facts().pageable_access))) {
    if (kind == memory_kind::device_pool || kind == memory_kind::managed_pool) {
      pool_ = make_pool(kind, on.device());
    }
  }
  ~timed_allocation() {
    try {
      free();
    } catch (const cuda_error&) {
      return;  // the failed call has already been reported
    }
  }
  timed_allocation(const timed_allocation&) = delete;
  timed_allocation& operator=(const timed_allocation&) = delete;

  void allocate() {
    switch (kind_) {
      case memory_kind::device:
        return check(cudaMalloc(&data_, bytes_));
      case memory_kind::managed:
        return check(cudaMallocManaged(&data_, bytes_));
      case memory_kind::pinned:
        return check(cudaMallocHost(&data_, bytes_));
      case memory_kind::device_pool:
      case memory_kind::managed_pool:
        return check(cudaMallocFromPoolAsync(&data_, bytes_, pool_.get(), bench_.stream()));
      case memory_kind::system:
        data_ = std::malloc(bytes_);
        if (data_ == nullptr) throw out_of_memory("cannot allocate " + to_text(bytes_) + " of system memory");
    }
  }
  void free() {
    if (data_ == nullptr) return;
    void* const data = std::exchange(data_, nullptr);
    switch (kind_) {
      case memory_kind::device:
      case memory_kind::managed:
        return check(cudaFree(data));
      case memory_kind::pinned:
        return check(cudaFreeHost(data));
      case memory_kind::device_pool:
      case memory_kind::managed_pool:
        check(cudaFreeAsync(data, bench_.stream()));
        return check(cudaStreamSynchronize(bench_.stream()));
      case memory_kind::system:
        std::free(data);
    }
  }
  // Uses the memory by the GPU, or by the CPU if the GPU cannot access it.
  void use_memory() {
    if (reached_by_gpu()) {
      touch_all(bench_.site(), static_cast<std::byte*>(data_), bytes_, access::write);
      check(cudaStreamSynchronize(bench_.stream()));
    } else {
      std::memset(data_, 0, bytes_);
    }
  }
  void require_gpu_access() const {
    if (!reached_by_gpu()) {
      throw unsupported("kernels cannot reach memory from malloc here (pageableMemoryAccess is 0)");
    }
  }

 private:
  bool reached_by_gpu() const { return kind_ != memory_kind::system || bench_.facts().pageable_access; }

  bench& bench_;
  memory_kind kind_;
  byte_count bytes_;
  memory_ledger::lease lease_;
  memory_pool pool_;
  void* data_ = nullptr;
};

trial allocation_trial(bench& on, memory_kind kind, allocation_step step, byte_count bytes) {
  const auto at = std::make_shared<timed_allocation>(on, kind, bytes);
  switch (step) {
    case allocation_step::allocate:
      return {[at] { at->free(); }, [at] { return time_by_host([&] { at->allocate(); }); }};
    case allocation_step::first_use:
      at->require_gpu_access();
      return {[at] {
                at->free();
                at->allocate();
              },
              [at] { return time_by_host([&] { at->use_memory(); }); }};
    case allocation_step::free:
      break;
  }
  return {[at] {
            at->allocate();
            at->use_memory();
          },
          [at] { return time_by_host([&] { at->free(); }); }};
}

}  // namespace

benchmark_case allocation_case(memory_kind kind, allocation_step step, byte_count bytes) {
  benchmark_case m;
  m.name = std::string("allocation/") + kind_names.at(static_cast<std::size_t>(kind)) + '/' +
           allocation_steps.at(static_cast<std::size_t>(step)) + "/size:" + bytes_text(bytes);
  m.reset_text = step == allocation_step::allocate    ? "freed before"
                 : step == allocation_step::first_use ? "freed and allocated before, written by the GPU"
                                                      : "allocated and written before";
  if (step == allocation_step::first_use) m.bytes = bytes;
  m.repetitions = 3;
  m.prepare = [=](bench& on) { return allocation_trial(on, kind, step, bytes); };
  return m;
}

std::vector<benchmark_case> allocation_cases(const device_facts&) {
  std::vector<benchmark_case> all;
  for (std::size_t kind = 0; kind < kind_names.size(); ++kind) {
    for (std::size_t step = 0; step < allocation_steps.size(); ++step) {
      for (const byte_count bytes : {64 * KiB, 16 * MiB, 512 * MiB}) {
        all.push_back(
            allocation_case(static_cast<memory_kind>(kind), static_cast<allocation_step>(step), bytes));
      }
    }
  }
  return all;
}

}  // namespace um::measure
