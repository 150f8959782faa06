// Measurements that are compared with each other. Both are taken within milliseconds on the same pages, so
// that disturbances affect both.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "core/machine.hpp"
#include "measure/calibration_sizes.hpp"
#include "measure/families.hpp"
#include "measure/staged_data.hpp"

namespace um::measure {
namespace {

double ns_until_gpu_idle(const std::function<void()>& issue) {
  return static_cast<double>(time_by_host(issue).total_time);
}

// Nanoseconds until `work` returns. `work` waits for its own stream only; other streams may still run.
double ns_until_return(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

// The device memory to which chase() writes its times, by the GPU's clock.
class chase_times {
 public:
  chase_times(bench& on, std::size_t places)
      : places_(places), memory_(on.device_memory(places * sizeof(std::uint32_t))) {}
  std::uint32_t* on_device(std::size_t from = 0) const {
    return reinterpret_cast<std::uint32_t*>(memory_.data()) + from;
  }
  std::vector<std::uint32_t> read() const {
    std::vector<std::uint32_t> all(places_);
    check(cudaMemcpy(all.data(), memory_.data(), places_ * sizeof(std::uint32_t), cudaMemcpyDeviceToHost));
    return all;
  }
  // The median of every `step`-th time from `from` on.
  static double median(const std::vector<std::uint32_t>& all, std::size_t from, std::size_t step = 1) {
    std::vector<double> some;
    for (std::size_t i = from; i < all.size(); i += step) some.push_back(all[i]);
    return median_of(std::move(some));
  }

 private:
  std::size_t places_;
  leased_memory memory_;
};

void write(const bench& on, managed_range what) {
  touch_all(on.site(), what.data, what.bytes, access::write);
  check(cudaStreamSynchronize(on.stream()));
}
leased_memory data_back_from_gpu(bench& on, byte_count bytes) {
  leased_memory made = on.managed_memory(bytes);
  fill_by_host(made.range());
  bring_to_device(on, made.range());
  bring_to_host(on, made.range());
  return made;
}

}  // namespace

benchmark_case round_trip(byte_count bytes) {
  benchmark_case m;
  m.name = "calibration/round_trip/size:" + bytes_text(bytes);
  m.reset_text = "nothing to put back: ends where it began, on the CPU and mapped there";
  m.prepare = [bytes](bench& on) -> trial {
    const auto memory = std::make_shared<leased_memory>(data_back_from_gpu(on, bytes));
    return {{}, [&on, memory] {
              repetition r;
              const auto step = [&](const char* name, copy_direction direction) {
                r.counters[name] = ns_until_gpu_idle([&] { prefetch(on, direction, memory->range()); });
              };
              step("in_ns", copy_direction::to_device);
              step("there_ns", copy_direction::to_device);
              step("out_ns", copy_direction::to_host);
              return r;
            }};
  };
  return m;
}

benchmark_case discard_and_prefetch_back(byte_count bytes) {
  benchmark_case m;
  m.name = "calibration/discard_and_back/size:" + bytes_text(bytes);
  m.reset_text = "on the GPU and written there";
  m.prepare = [bytes](bench& on) -> trial {
    const auto memory = std::make_shared<leased_memory>(data_back_from_gpu(on, bytes));
    return {[&on, memory] {
              bring_to_device(on, memory->range());
              write(on, memory->range());
            },
            [&on, memory] {
              repetition r;
              r.counters["discard_ns"] =
                  ns_until_gpu_idle([&] { discard_range(memory->range(), on.stream()); });
              r.counters["back_ns"] =
                  ns_until_gpu_idle([&] { prefetch(on, copy_direction::to_device, memory->range()); });
              return r;
            }};
  };
  return m;
}

benchmark_case small_prefetches(int calls) {
  benchmark_case m;
  m.name = "calibration/small_prefetches/count:" + std::to_string(calls);
  m.reset_text = "nothing to put back: ends where it began, on the CPU and mapped there";
  m.prepare = [calls](bench& on) -> trial {
    const auto count = static_cast<byte_count>(calls);
    const auto memory = std::make_shared<leased_memory>(data_back_from_gpu(on, count * managed_block));
    return {{}, [&on, memory, count] {
              std::vector<double> in, out;
              for (byte_count i = 0; i < count; ++i) {
                const managed_range part{memory->data() + i * managed_block, granule};
                in.push_back(ns_until_gpu_idle([&] { prefetch(on, copy_direction::to_device, part); }));
                out.push_back(ns_until_gpu_idle([&] { prefetch(on, copy_direction::to_host, part); }));
              }
              repetition r;
              r.counters["in_ns"] = median_of(std::move(in));
              r.counters["out_ns"] = median_of(std::move(out));
              return r;
            }};
  };
  return m;
}

benchmark_case faults_on_new_and_seen_blocks(int blocks) {
  benchmark_case m;
  m.name = "calibration/first_visits/count:" + std::to_string(blocks);
  m.reset_text = std::string("one half: ") + reset_text(data_state::cold) +
                 "; the other: " + reset_text(data_state::warm);
  m.prepare = [blocks](bench& on) -> trial {
    const auto count = static_cast<std::size_t>(blocks);
    const auto cold = std::make_shared<staged_data>(on, data_state::cold, count * managed_block);
    const auto seen = std::make_shared<staged_data>(on, data_state::warm, count * managed_block);
    const auto times = std::make_shared<chase_times>(on, 2 * count);
    return {[cold, seen] {
              cold->reset();
              seen->reset();
            },
            [&on, cold, seen, times, blocks] {
              repetition r = time_by_host([&] {
                chase_in_turn(on.site(), cold->data(), seen->data(), 2 * blocks, managed_block,
                              times->on_device());
              });
              const std::vector<std::uint32_t> read = times->read();
              r.counters["cold_ns"] =
                  chase_times::median(read, 2, 2);  // without the very first, which found the driver idle
              r.counters["seen_ns"] = chase_times::median(read, 1, 2);
              r.counters["beyond_ns"] = r.counters["cold_ns"] - r.counters["seen_ns"];
              return r;
            }};
  };
  return m;
}

benchmark_case isolated_faults_after_pause(int faults) {
  benchmark_case m;
  m.name = "calibration/idle_faults/count:" + std::to_string(faults);
  m.reset_text = reset_text(data_state::warm);
  m.prepare = [faults](bench& on) -> trial {
    const auto count = static_cast<std::size_t>(faults);
    const auto memory = std::make_shared<staged_data>(on, data_state::warm, count * managed_block);
    const auto times = std::make_shared<chase_times>(on, count);
    return {[memory] { memory->reset(); },
            [&on, memory, times, count] {
              constexpr std::chrono::microseconds rest(300);
              repetition r = time_by_host([&] {
                for (std::size_t i = 0; i < count; ++i) {
                  std::this_thread::sleep_for(rest);
                  chase(on.site(), memory->data() + i * managed_block, managed_block, managed_block,
                        visit_order::ascending, times->on_device(i));
                  check(cudaStreamSynchronize(on.stream()));
                }
              });
              r.counters["idle_fault_ns"] = chase_times::median(times->read(), 0);
              return r;
            }};
  };
  return m;
}

benchmark_case touches_again_in_blocks(int blocks) {
  benchmark_case m;
  m.name = "calibration/touches_again/count:" + std::to_string(blocks);
  m.reset_text = reset_text(data_state::nowhere);
  m.prepare = [blocks](bench& on) -> trial {
    const byte_count bytes = static_cast<byte_count>(blocks) * managed_block;
    const auto memory = std::make_shared<staged_data>(on, data_state::nowhere, bytes);
    return {[memory] { memory->reset(); },
            [&on, memory, bytes] {
              const auto touch = [&](byte_count at) {
                return ns_until_gpu_idle([&] {
                  touch_strided(on.site(), memory->data() + at, bytes, managed_block, access::write,
                                visit_order::ascending);
                });
              };
              repetition r;
              r.counters["first_ns"] = touch(0);
              r.counters["again_ns"] = touch(managed_block / 2);
              return r;
            }};
  };
  return m;
}

benchmark_case repeated_isolated_faults(int blocks) {
  benchmark_case m;
  m.name = "calibration/faults_again/count:" + std::to_string(blocks);
  m.reset_text = reset_text(data_state::nowhere);
  m.prepare = [blocks](bench& on) -> trial {
    const auto count = static_cast<std::size_t>(blocks);
    const auto memory = std::make_shared<staged_data>(on, data_state::nowhere, count * managed_block);
    const auto times = std::make_shared<chase_times>(on, count);
    return {[memory] { memory->reset(); },
            [&on, memory, times, count] {
              const auto fault = [&](byte_count at) {
                chase(on.site(), memory->data() + at, count * managed_block, managed_block,
                      visit_order::ascending, times->on_device());
                check(cudaStreamSynchronize(on.stream()));
                return chase_times::median(times->read(), 1);
              };
              repetition r;
              r.counters["first_ns"] = fault(0);
              r.counters["again_ns"] = fault(managed_block / 2);
              return r;
            }};
  };
  return m;
}

benchmark_case host_population(byte_count bytes) {
  benchmark_case m;
  m.name = "calibration/host_population/size:" + bytes_text(bytes);
  m.reset_text = "allocated anew and written by the GPU";
  m.prepare = [bytes](bench& on) -> trial {
    const auto memory = std::make_shared<leased_memory>();
    return {[&on, memory, bytes] {
              memory->release();
              *memory = on.managed_memory(bytes);
              write(on, memory->range());
            },
            [&on, memory] {
              const auto out = [&] {
                return ns_until_gpu_idle([&] { prefetch(on, copy_direction::to_host, memory->range()); });
              };
              repetition r;
              r.counters["new_ns"] = out();
              bring_to_device(on, memory->range());
              r.counters["again_ns"] = out();
              r.counters["beyond_ns"] = r.counters["new_ns"] - r.counters["again_ns"];
              return r;
            }};
  };
  return m;
}

benchmark_case prefetch_out_beside_in(byte_count bytes_in, byte_count bytes_out) {
  benchmark_case m;
  m.name = "calibration/out_beside_in/in:" + bytes_text(bytes_in) + "/out:" + bytes_text(bytes_out);
  m.reset_text = "one part prefetched to the CPU, the other to the GPU";
  m.prepare = [bytes_in, bytes_out](bench& on) -> trial {
    const auto in = std::make_shared<leased_memory>(data_back_from_gpu(on, bytes_in));
    const auto out = std::make_shared<leased_memory>(data_back_from_gpu(on, bytes_out));
    return {[&on, in, out] {
              bring_to_device(on, out->range());
              bring_to_host(on, in->range());
            },
            [&on, in, out] {
              const double alone =
                  ns_until_gpu_idle([&] { prefetch(on, copy_direction::to_host, out->range()); });
              bring_to_device(on, out->range());
              repetition r = prefetch_both_ways_at_once(on, in->range(), out->range());
              r.counters["alone_ns"] = alone;
              return r;
            }};
  };
  return m;
}

benchmark_case prefetch_out_beside_faults(byte_count bytes) {
  benchmark_case m;
  m.name = "calibration/out_beside_faults/size:" + bytes_text(bytes);
  m.reset_text = "one part prefetched to the GPU, the other to the CPU";
  m.prepare = [bytes](bench& on) -> trial {
    const auto out = std::make_shared<leased_memory>(data_back_from_gpu(on, bytes));
    const auto faulted = std::make_shared<leased_memory>(data_back_from_gpu(on, bytes));
    const auto reset = [&on, out, faulted] {
      bring_to_device(on, out->range());
      bring_to_host(on, faulted->range());
    };
    const auto evict = [&on, out, bytes] {
      for (byte_count at = 0; at < bytes; at += eviction_call_bytes) {
        prefetch_to_host({out->data() + at, std::min(eviction_call_bytes, bytes - at)}, on.stream(1));
      }
      check(cudaStreamSynchronize(on.stream(1)));
    };
    const auto fault = [&on, faulted, bytes] {
      touch_all(on.site(), faulted->data(), bytes, access::read);
      check(cudaStreamSynchronize(on.stream()));
    };
    return {reset, [reset, evict, fault] {
              repetition r;
              r.counters["alone_ns"] = ns_until_return(evict);
              r.counters["faults_alone_ns"] = ns_until_return(fault);
              reset();
              std::future<double> other =
                  std::async(std::launch::async, [&] { return ns_until_return(evict); });
              r.counters["faults_ns"] = ns_until_return(fault);
              r.counters["out_ns"] = other.get();
              return r;
            }};
  };
  return m;
}

}  // namespace um::measure
