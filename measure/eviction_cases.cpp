#include <cuda_runtime_api.h>

#include <array>
#include <memory>

#include "measure/families.hpp"
#include "measure/running.hpp"

namespace um::measure {
namespace {

constexpr std::array<const char*, 3> way_names{"prefetch", "pinned_twin", "kernel_twin"};
constexpr std::array<const char*, 3> company_names{"nothing", "convolution", "product"};
constexpr int copy_blocks = 4;
constexpr std::size_t movement_stream = 1;

// Managed data that goes to the CPU and comes back in one of three ways.
class evictee {
 public:
  evictee(bench& on, evicting how, byte_count bytes) : on_(on), how_(how), memory_(on.managed_memory(bytes)) {
    fill_by_host(memory_.range());
    if (how == evicting::prefetch) return;
    twin_ = how == evicting::pinned_twin ? on.pinned_memory(bytes) : on.managed_memory(bytes);
    if (how == evicting::pinned_twin) return;
    advise_range(twin_.range(), advice::preferred_host, on.device());
    advise_range(twin_.range(), advice::accessed_by_device, on.device());
    fill_by_host(twin_.range());
  }

  void put_on_device() {
    bring_to_device(on_, memory_.range());
    touch_all(on_.site(), memory_.data(), memory_.bytes(), access::write);
    check(cudaStreamSynchronize(on_.stream()));
  }
  void issue_out() {
    if (how_ == evicting::prefetch) return prefetch_to_host(memory_.range(), stream());
    copy(memory_.data(), twin_.data());
    discard_range(memory_.range(), stream());
  }
  void issue_back() {
    if (how_ == evicting::prefetch) return prefetch_to_device(memory_.range(), on_.device(), stream());
    discard_and_prefetch_to_device(memory_.range(), on_.device(), stream());
    copy(twin_.data(), memory_.data());
  }
  cudaStream_t stream() const { return on_.stream(movement_stream); }

 private:
  void copy(std::byte* from, std::byte* to) const {
    if (how_ == evicting::kernel_twin) {
      return copy_by_kernel(on_.site(movement_stream), from, to, memory_.bytes(), copy_blocks);
    }
    check(cudaMemcpyAsync(to, from, memory_.bytes(), cudaMemcpyDefault, stream()));
  }

  bench& on_;
  evicting how_;
  grant memory_, twin_;
};

// An operator called over and over on the compute stream for at least as long as a movement takes.
class neighbour {
 public:
  neighbour(bench& on, company which)
      : on_(on), begin_(make_event(event_use::timing)), end_(make_event(event_use::timing)) {
    if (which == company::convolution) {
      runs_ = operator_on_device(on, vgg_convolution(64, 256, 256, 56));
    } else {
      runs_ = operator_on_device(on, matrix_problem{.n = 4096, .in = 4096, .out = 4096});
    }
    constexpr nanoseconds span = 40'000'000;
    start(3);
    const nanoseconds each = finish() / 3;
    calls_ = static_cast<int>(span / std::max<nanoseconds>(each, 1)) + 1;
    start();
    alone_ = finish();
  }

  void start() { start(calls_); }
  nanoseconds finish() {
    check(cudaEventSynchronize(end_.get()));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_.get(), end_.get()));
    return static_cast<nanoseconds>(static_cast<double>(ms) * 1e6);
  }
  nanoseconds alone() const { return alone_; }

 private:
  void start(int calls) {
    check(cudaEventRecord(begin_.get(), on_.libraries().compute().stream));
    for (int i = 0; i < calls; ++i) runs_.work.call();
    check(cudaEventRecord(end_.get(), on_.libraries().compute().stream));
  }

  bench& on_;
  running_operator runs_;
  event begin_, end_;
  int calls_ = 0;
  nanoseconds alone_ = 0;
};

repetition run_once(evictee& data, way direction, neighbour* beside) {
  if (beside != nullptr) beside->start();
  repetition r = timed_on(data.stream(), [&] {
    if (direction == way::to_host) return data.issue_out();
    data.issue_back();
  });
  if (beside == nullptr) return r;
  const nanoseconds together = beside->finish();
  r.more["operator_alone_ns"] = static_cast<double>(beside->alone());
  r.more["operator_beside_ns"] = static_cast<double>(together);
  r.more["operator_loses_ns"] = static_cast<double>(together - beside->alone());
  return r;
}

}  // namespace

measurement evicting_by(evicting how, way direction, company beside, byte_count bytes) {
  const bool out = direction == way::to_host;
  measurement m;
  m.name = std::string("eviction/") + way_names.at(static_cast<std::size_t>(how)) + (out ? "/out" : "/back") +
           "/beside:" + company_names.at(static_cast<std::size_t>(beside)) + "/size:" + in_name(bytes);
  m.bytes = bytes;
  m.over_link = direction;
  m.put_back =
      out ? "prefetched to the GPU and written there" : "prefetched to the GPU, written there, evicted";
  m.migrates = beside == company::none;
  m.repetitions = 8;
  m.prepare = [=](bench& on) -> trial {
    const auto other = beside == company::none ? nullptr : std::make_shared<neighbour>(on, beside);
    const auto data = std::make_shared<evictee>(on, how, bytes);
    return {[data, out] {
              data->put_on_device();
              if (!out) data->issue_out();
              check(cudaDeviceSynchronize());
            },
            [data, direction, other] { return run_once(*data, direction, other.get()); }};
  };
  return m;
}

std::vector<measurement> eviction_cases(const device_facts&) {
  std::vector<measurement> all;
  for (const company beside : {company::none, company::convolution, company::product}) {
    for (const evicting how : {evicting::prefetch, evicting::pinned_twin, evicting::kernel_twin}) {
      for (const way direction : {way::to_host, way::to_device}) {
        all.push_back(evicting_by(how, direction, beside, 256 * MiB));
      }
    }
  }
  return all;
}

}  // namespace um::measure
