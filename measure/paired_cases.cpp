// What calibration measures in one go because it is compared with one another: both sides of a
// difference within milliseconds, on the same pages, so that what disturbs one disturbs the other.
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

double taken(const std::function<void()>& issue) {
  return static_cast<double>(timed(issue).total);
}

// Nanoseconds until `work` returns. It waits for its own stream only; other streams may go on.
double lasts(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

// Times of a chase, by the GPU's clock, and room for them on the device.
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
  // Of every `step`-th place from `from` on.
  static double median(const std::vector<std::uint32_t>& all, std::size_t from, std::size_t step = 1) {
    std::vector<double> some;
    for (std::size_t i = from; i < all.size(); i += step) some.push_back(all[i]);
    return median_of(std::move(some));
  }

 private:
  std::size_t places_;
  grant memory_;
};

void prefetch(const bench& on, way direction, managed_range what) {
  if (direction == way::to_device) return prefetch_to_device(what, on.device(), on.stream());
  prefetch_to_host(what, on.stream());
}
void write(const bench& on, managed_range what) {
  touch_all(on.site(), what.data, what.bytes, access::write);
  check(cudaStreamSynchronize(on.stream()));
}
grant seen_data(bench& on, byte_count bytes) {
  grant made = on.managed_memory(bytes);
  fill_by_host(made.range());
  bring_to_device(on, made.range());
  bring_to_host(on, made.range());
  return made;
}

}  // namespace

measurement round_trip(byte_count bytes) {
  measurement m;
  m.name = "calibration/round_trip/size:" + in_name(bytes);
  m.put_back = "nothing to put back: ends where it began, on the CPU and mapped there";
  m.prepare = [bytes](bench& on) -> trial {
    const auto memory = std::make_shared<grant>(seen_data(on, bytes));
    return {{}, [&on, memory] {
              repetition r;
              const auto step = [&](const char* name, way direction) {
                r.more[name] = taken([&] { prefetch(on, direction, memory->range()); });
              };
              step("in_ns", way::to_device);
              step("there_ns", way::to_device);
              step("out_ns", way::to_host);
              return r;
            }};
  };
  return m;
}

measurement discard_and_back(byte_count bytes) {
  measurement m;
  m.name = "calibration/discard_and_back/size:" + in_name(bytes);
  m.put_back = "on the GPU and written there";
  m.prepare = [bytes](bench& on) -> trial {
    const auto memory = std::make_shared<grant>(seen_data(on, bytes));
    return {[&on, memory] {
              bring_to_device(on, memory->range());
              write(on, memory->range());
            },
            [&on, memory] {
              repetition r;
              r.more["discard_ns"] = taken([&] { discard_range(memory->range(), on.stream()); });
              r.more["back_ns"] = taken([&] { prefetch(on, way::to_device, memory->range()); });
              return r;
            }};
  };
  return m;
}

measurement small_prefetches(int blocks) {
  measurement m;
  m.name = "calibration/small_prefetches/count:" + std::to_string(blocks);
  m.put_back = "nothing to put back: ends where it began, on the CPU and mapped there";
  m.prepare = [blocks](bench& on) -> trial {
    const auto count = static_cast<byte_count>(blocks);
    const auto memory = std::make_shared<grant>(seen_data(on, count * managed_block));
    return {{}, [&on, memory, count] {
              std::vector<double> in, out;
              for (byte_count i = 0; i < count; ++i) {
                const managed_range part{memory->data() + i * managed_block, granule};
                in.push_back(taken([&] { prefetch(on, way::to_device, part); }));
                out.push_back(taken([&] { prefetch(on, way::to_host, part); }));
              }
              repetition r;
              r.more["in_ns"] = median_of(std::move(in));
              r.more["out_ns"] = median_of(std::move(out));
              return r;
            }};
  };
  return m;
}

measurement first_visits(int blocks) {
  measurement m;
  m.name = "calibration/first_visits/count:" + std::to_string(blocks);
  m.put_back =
      std::string("one half: ") + put_back_of(state::cold) + "; the other: " + put_back_of(state::warm);
  m.prepare = [blocks](bench& on) -> trial {
    const auto count = static_cast<std::size_t>(blocks);
    const auto cold = std::make_shared<staged_data>(on, state::cold, count * managed_block);
    const auto seen = std::make_shared<staged_data>(on, state::warm, count * managed_block);
    const auto times = std::make_shared<chase_times>(on, 2 * count);
    return {[cold, seen] {
              cold->put_back();
              seen->put_back();
            },
            [&on, cold, seen, times, blocks] {
              repetition r = timed([&] {
                chase_in_turn(on.site(), cold->data(), seen->data(), 2 * blocks, managed_block,
                              times->on_device());
              });
              const std::vector<std::uint32_t> read = times->read();
              r.more["cold_ns"] = chase_times::median(read, 2, 2);  // the very first found the driver idle
              r.more["seen_ns"] = chase_times::median(read, 1, 2);
              r.more["beyond_ns"] = r.more["cold_ns"] - r.more["seen_ns"];
              return r;
            }};
  };
  return m;
}

measurement idle_faults(int faults) {
  measurement m;
  m.name = "calibration/idle_faults/count:" + std::to_string(faults);
  m.put_back = put_back_of(state::warm);
  m.prepare = [faults](bench& on) -> trial {
    const auto count = static_cast<std::size_t>(faults);
    const auto memory = std::make_shared<staged_data>(on, state::warm, count * managed_block);
    const auto times = std::make_shared<chase_times>(on, count);
    return {[memory] { memory->put_back(); },
            [&on, memory, times, count] {
              constexpr std::chrono::microseconds rest(300);
              repetition r = timed([&] {
                for (std::size_t i = 0; i < count; ++i) {
                  std::this_thread::sleep_for(rest);
                  chase(on.site(), memory->data() + i * managed_block, managed_block, managed_block,
                        visiting::ascending, times->on_device(i));
                  check(cudaStreamSynchronize(on.stream()));
                }
              });
              r.more["idle_fault_ns"] = chase_times::median(times->read(), 0);
              return r;
            }};
  };
  return m;
}

measurement touches_again(int blocks) {
  measurement m;
  m.name = "calibration/touches_again/count:" + std::to_string(blocks);
  m.put_back = put_back_of(state::nowhere);
  m.prepare = [blocks](bench& on) -> trial {
    const byte_count bytes = static_cast<byte_count>(blocks) * managed_block;
    const auto memory = std::make_shared<staged_data>(on, state::nowhere, bytes);
    return {[memory] { memory->put_back(); },
            [&on, memory, bytes] {
              const auto touch = [&](byte_count at) {
                return taken([&] {
                  touch_strided(on.site(), memory->data() + at, bytes, managed_block, access::write,
                                visiting::ascending);
                });
              };
              repetition r;
              r.more["first_ns"] = touch(0);
              r.more["again_ns"] = touch(managed_block / 2);
              return r;
            }};
  };
  return m;
}

measurement faults_again(int blocks) {
  measurement m;
  m.name = "calibration/faults_again/count:" + std::to_string(blocks);
  m.put_back = put_back_of(state::nowhere);
  m.prepare = [blocks](bench& on) -> trial {
    const auto count = static_cast<std::size_t>(blocks);
    const auto memory = std::make_shared<staged_data>(on, state::nowhere, count * managed_block);
    const auto times = std::make_shared<chase_times>(on, count);
    return {[memory] { memory->put_back(); },
            [&on, memory, times, count] {
              const auto fault = [&](byte_count at) {
                chase(on.site(), memory->data() + at, count * managed_block, managed_block,
                      visiting::ascending, times->on_device());
                check(cudaStreamSynchronize(on.stream()));
                return chase_times::median(times->read(), 1);
              };
              repetition r;
              r.more["first_ns"] = fault(0);
              r.more["again_ns"] = fault(managed_block / 2);
              return r;
            }};
  };
  return m;
}

measurement host_population(byte_count bytes) {
  measurement m;
  m.name = "calibration/host_population/size:" + in_name(bytes);
  m.put_back = "allocated anew and written by the GPU";
  m.prepare = [bytes](bench& on) -> trial {
    const auto memory = std::make_shared<grant>();
    return {[&on, memory, bytes] {
              memory->release();
              *memory = on.managed_memory(bytes);
              write(on, memory->range());
            },
            [&on, memory] {
              const auto out = [&] { return taken([&] { prefetch(on, way::to_host, memory->range()); }); };
              repetition r;
              r.more["new_ns"] = out();
              bring_to_device(on, memory->range());
              r.more["again_ns"] = out();
              r.more["beyond_ns"] = r.more["new_ns"] - r.more["again_ns"];
              return r;
            }};
  };
  return m;
}

measurement out_beside_in(byte_count bytes_in, byte_count bytes_out) {
  measurement m;
  m.name = "calibration/out_beside_in/in:" + in_name(bytes_in) + "/out:" + in_name(bytes_out);
  m.put_back = "one part prefetched to the CPU, the other to the GPU";
  m.prepare = [bytes_in, bytes_out](bench& on) -> trial {
    const auto in = std::make_shared<grant>(seen_data(on, bytes_in));
    const auto out = std::make_shared<grant>(seen_data(on, bytes_out));
    return {[&on, in, out] {
              bring_to_device(on, out->range());
              bring_to_host(on, in->range());
            },
            [&on, in, out] {
              const double alone = taken([&] { prefetch(on, way::to_host, out->range()); });
              bring_to_device(on, out->range());
              repetition r = prefetch_at_once(on, in->range(), out->range());
              r.more["alone_ns"] = alone;
              return r;
            }};
  };
  return m;
}

measurement out_beside_faults(byte_count bytes) {
  measurement m;
  m.name = "calibration/out_beside_faults/size:" + in_name(bytes);
  m.put_back = "one part prefetched to the GPU, the other to the CPU";
  m.prepare = [bytes](bench& on) -> trial {
    const auto out = std::make_shared<grant>(seen_data(on, bytes));
    const auto faulted = std::make_shared<grant>(seen_data(on, bytes));
    const auto put_back = [&on, out, faulted] {
      bring_to_device(on, out->range());
      bring_to_host(on, faulted->range());
    };
    const auto evict = [&on, out, bytes] {
      for (byte_count at = 0; at < bytes; at += evicted_at_once) {
        prefetch_to_host({out->data() + at, std::min(evicted_at_once, bytes - at)}, on.stream(1));
      }
      check(cudaStreamSynchronize(on.stream(1)));
    };
    const auto fault = [&on, faulted, bytes] {
      touch_all(on.site(), faulted->data(), bytes, access::read);
      check(cudaStreamSynchronize(on.stream()));
    };
    return {put_back, [put_back, evict, fault] {
              repetition r;
              r.more["alone_ns"] = lasts(evict);
              r.more["faults_alone_ns"] = lasts(fault);
              put_back();
              std::future<double> other = std::async(std::launch::async, [&] { return lasts(evict); });
              r.more["faults_ns"] = lasts(fault);
              r.more["out_ns"] = other.get();
              return r;
            }};
  };
  return m;
}

}  // namespace um::measure
