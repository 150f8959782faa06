#include <cuda_runtime_api.h>

#include <array>
#include <memory>

#include "measure/families.hpp"
#include "measure/running.hpp"

namespace um::measure {
namespace {

constexpr std::array<const char*, 3> method_names{"prefetch", "pinned_twin", "kernel_twin"};
constexpr std::array<const char*, 3> company_names{"nothing", "convolution", "product"};
constexpr int copy_blocks = 4;
constexpr std::size_t movement_stream = 1;

// Managed data that moves to the CPU and back in one of three ways.
class evicted_data {
 public:
  evicted_data(bench& on, eviction_method method, byte_count bytes)
      : bench_(on), method_(method), memory_(on.managed_memory(bytes)) {
    fill_by_host(memory_.range());
    if (method == eviction_method::prefetch) return;
    twin_ = method == eviction_method::pinned_twin ? on.pinned_memory(bytes) : on.managed_memory(bytes);
    if (method == eviction_method::pinned_twin) return;
    advise_range(twin_.range(), advice::preferred_host, on.device());
    advise_range(twin_.range(), advice::accessed_by_device, on.device());
    fill_by_host(twin_.range());
  }

  void put_on_device() {
    bring_to_device(bench_, memory_.range());
    touch_all(bench_.site(), memory_.data(), memory_.bytes(), access::write);
    check(cudaStreamSynchronize(bench_.stream()));
  }
  void issue_eviction() {
    if (method_ == eviction_method::prefetch) return prefetch_to_host(memory_.range(), stream());
    copy(memory_.data(), twin_.data());
    discard_range(memory_.range(), stream());
  }
  void issue_return() {
    if (method_ == eviction_method::prefetch)
      return prefetch_to_device(memory_.range(), bench_.device(), stream());
    discard_and_prefetch_to_device(memory_.range(), bench_.device(), stream());
    copy(twin_.data(), memory_.data());
  }
  cudaStream_t stream() const { return bench_.stream(movement_stream); }

 private:
  void copy(std::byte* from, std::byte* to) const {
    if (method_ == eviction_method::kernel_twin) {
      return copy_by_kernel(bench_.site(movement_stream), from, to, memory_.bytes(), copy_blocks);
    }
    check(cudaMemcpyAsync(to, from, memory_.bytes(), cudaMemcpyDefault, stream()));
  }

  bench& bench_;
  eviction_method method_;
  leased_memory memory_, twin_;
};

// An operator that runs repeatedly on the compute stream during a whole movement.
class concurrent_kernel {
 public:
  concurrent_kernel(bench& on, concurrent_work which)
      : bench_(on), begin_(make_event(event_use::timing)), end_(make_event(event_use::timing)) {
    if (which == concurrent_work::convolution) {
      runs_ = operator_on_device(on, vgg_convolution(64, 256, 256, 56));
    } else {
      runs_ = operator_on_device(on, matrix_problem{.n = 4096, .in = 4096, .out = 4096});
    }
    constexpr nanoseconds span = 40'000'000;
    launch(3);
    const nanoseconds each = wait_and_measure() / 3;
    calls_ = static_cast<int>(span / std::max<nanoseconds>(each, 1)) + 1;
    launch();
    alone_ = wait_and_measure();
  }

  void launch() { launch(calls_); }
  nanoseconds wait_and_measure() {
    check(cudaEventSynchronize(end_.get()));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_.get(), end_.get()));
    return static_cast<nanoseconds>(static_cast<double>(ms) * 1e6);
  }
  nanoseconds alone() const { return alone_; }

 private:
  void launch(int calls) {
    check(cudaEventRecord(begin_.get(), bench_.libraries().compute().stream));
    for (int i = 0; i < calls; ++i) runs_.work.call();
    check(cudaEventRecord(end_.get(), bench_.libraries().compute().stream));
  }

  bench& bench_;
  operator_with_operands runs_;
  cuda_event begin_, end_;
  int calls_ = 0;
  nanoseconds alone_ = 0;
};

repetition run_movement(evicted_data& data, copy_direction direction, concurrent_kernel* beside) {
  if (beside != nullptr) beside->launch();
  repetition r = time_by_events(data.stream(), [&] {
    if (direction == copy_direction::to_host) return data.issue_eviction();
    data.issue_return();
  });
  if (beside == nullptr) return r;
  const nanoseconds together = beside->wait_and_measure();
  r.counters["operator_alone_ns"] = static_cast<double>(beside->alone());
  r.counters["operator_beside_ns"] = static_cast<double>(together);
  r.counters["operator_loses_ns"] = static_cast<double>(together - beside->alone());
  return r;
}

}  // namespace

benchmark_case eviction_case(eviction_method method, copy_direction direction, concurrent_work beside,
                             byte_count bytes) {
  const bool out = direction == copy_direction::to_host;
  benchmark_case m;
  m.name = std::string("eviction/") + method_names.at(static_cast<std::size_t>(method)) +
           (out ? "/out" : "/back") + "/beside:" + company_names.at(static_cast<std::size_t>(beside)) +
           "/size:" + bytes_text(bytes);
  m.bytes = bytes;
  m.link_direction = direction;
  m.reset_text =
      out ? "prefetched to the GPU and written there" : "prefetched to the GPU, written there, evicted";
  m.migrates = beside == concurrent_work::none;
  m.repetitions = 8;
  m.prepare = [=](bench& on) -> trial {
    const auto other =
        beside == concurrent_work::none ? nullptr : std::make_shared<concurrent_kernel>(on, beside);
    const auto data = std::make_shared<evicted_data>(on, method, bytes);
    return {[data, out] {
              data->put_on_device();
              if (!out) data->issue_eviction();
              check(cudaDeviceSynchronize());
            },
            [data, direction, other] { return run_movement(*data, direction, other.get()); }};
  };
  return m;
}

std::vector<benchmark_case> eviction_cases(const device_facts&) {
  std::vector<benchmark_case> all;
  for (const concurrent_work beside :
       {concurrent_work::none, concurrent_work::convolution, concurrent_work::product}) {
    for (const eviction_method method :
         {eviction_method::prefetch, eviction_method::pinned_twin, eviction_method::kernel_twin}) {
      for (const copy_direction direction : {copy_direction::to_host, copy_direction::to_device}) {
        all.push_back(eviction_case(method, direction, beside, 256 * MiB));
      }
    }
  }
  return all;
}

}  // namespace um::measure
