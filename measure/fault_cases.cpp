#include <cuda_runtime_api.h>

#include <array>
#include <memory>

#include "measure/families.hpp"
#include "measure/staged_data.hpp"

namespace um::measure {
namespace {

constexpr std::array<const char*, 5> state_names{"nowhere", "cold", "warm", "unmapped", "device"};
constexpr std::array<const char*, 4> pattern_names{"sequential", "strided", "shuffled", "chase"};

void launch_access(const bench& on, const gpu_access& what, std::byte* data) {
  const visit_order order =
      what.order == access_pattern::shuffled ? visit_order::shuffled : visit_order::ascending;
  switch (what.order) {
    case access_pattern::sequential:
      return touch_all(on.site(), data, what.bytes, what.access_kind, what.blocks);
    case access_pattern::strided:
    case access_pattern::shuffled:
      return touch_strided(on.site(), data, what.bytes, what.stride, what.access_kind, order);
    case access_pattern::chase:
      return chase(on.site(), data, what.bytes, what.stride, visit_order::shuffled, nullptr);
  }
}

std::string access_name(const gpu_access& a) {
  std::string name = a.data == data_state::nowhere ? "first_touch/gpu_" : "faults/gpu_";
  name += a.access_kind == access::read ? "read/" : "write/";
  name += pattern_names.at(static_cast<std::size_t>(a.order));
  name += std::string("/data:") + state_names.at(static_cast<std::size_t>(a.data));
  if (a.stride != 0) name += "/stride:" + bytes_text(a.stride);
  if (a.blocks != 0) name += "/blocks:" + std::to_string(a.blocks);
  return name + "/size:" + bytes_text(a.bytes);
}

// Times every read by the GPU's clock.
trial isolated_fault_trial(bench& on, data_state wanted) {
  constexpr byte_count places = 64;
  const auto memory = std::make_shared<staged_data>(on, wanted, places * managed_block);
  const auto times = std::make_shared<leased_memory>(on.device_memory(places * sizeof(std::uint32_t)));
  return {[memory] { memory->reset(); },
          [&on, memory, times] {
            auto* const each = reinterpret_cast<std::uint32_t*>(times->data());
            repetition r = time_by_host([&] {
              chase(on.site(), memory->data(), places * managed_block, managed_block, visit_order::ascending,
                    each);
            });
            std::array<std::uint32_t, places> read{};
            check(cudaMemcpy(read.data(), each, sizeof(read), cudaMemcpyDeviceToHost));
            r.counters["idle_fault_ns"] = read.front();  // the driver was idle before the first fault
            r.counters["fault_ns"] = median_of({read.begin() + 1, read.end()});
            r.counters["shortest_fault_ns"] = *std::min_element(read.begin(), read.end());
            return r;
          }};
}

void touch_by_cpu(managed_range what, byte_count stride, access kind) {
  for (byte_count at = 0; at < what.bytes; at += stride) {
    auto* const place = reinterpret_cast<volatile int*>(what.data + at);
    if (kind == access::read) {
      static_cast<void>(*place);
    } else {
      *place = 0;
    }
  }
}

trial cpu_access_trial(bench& on, byte_count bytes, byte_count stride, std::optional<advice> hint,
                       access kind) {
  const auto memory = std::make_shared<leased_memory>(on.managed_memory(bytes));
  fill_by_host(memory->range());
  if (hint) advise_range(memory->range(), *hint, on.device());
  return {[&on, memory] { bring_to_device(on, memory->range()); },
          [memory, bytes, stride, kind] {
            repetition r = time_by_host([&] { touch_by_cpu(memory->range(), stride, kind); });
            r.counters["ns_per_touch"] =
                static_cast<double>(r.total_time) * static_cast<double>(stride) / static_cast<double>(bytes);
            return r;
          }};
}

benchmark_case system_access(access kind, byte_count bytes) {
  benchmark_case m;
  m.name = std::string("faults/gpu_") + (kind == access::read ? "read" : "write") +
           "/sequential/data:malloc/size:" + bytes_text(bytes);
  m.bytes = bytes;
  m.link_direction = copy_direction::to_device;
  m.reset_text = "allocated anew by malloc and written by the CPU";
  m.prepare = [kind, bytes](bench& on) -> trial {
    if (!on.facts().pageable_access) {
      throw unsupported("kernels cannot reach memory from malloc here (pageableMemoryAccess is 0)");
    }
    const auto memory = std::make_shared<leased_memory>();
    return {[&on, memory, bytes] {
              memory->release();
              *memory = on.system_memory(bytes);
              fill_by_host(memory->range());
            },
            [&on, memory, kind, bytes] {
              return time_by_host([&] { touch_all(on.site(), memory->data(), bytes, kind); });
            }};
  };
  return m;
}

}  // namespace

benchmark_case gpu_touches(const gpu_access& what) {
  benchmark_case m;
  const bool whole = what.order == access_pattern::sequential;
  const byte_count touches = whole ? 0 : what.bytes / what.stride;
  m.name = access_name(what);
  m.bytes = whole ? what.bytes : touches * sizeof(int);
  m.link_direction = whole && what.data != data_state::nowhere && what.data != data_state::device
                         ? copy_direction::to_device
                         : copy_direction::none;
  m.reset_text = reset_text(what.data);
  m.migrates = what.data != data_state::device;
  if (m.link_direction != copy_direction::none) m.expected_in_bytes = what.bytes;
  m.repetitions = 3;
  m.prepare = [what, touches](bench& on) -> trial {
    const auto memory = std::make_shared<staged_data>(on, what.data, what.bytes);
    return {[memory] { memory->reset(); },
            [&on, what, touches, memory] {
              repetition r = time_by_host([&] { launch_access(on, what, memory->data()); });
              if (touches != 0)
                r.counters["ns_per_touch"] = static_cast<double>(r.total_time) / static_cast<double>(touches);
              return r;
            }};
  };
  return m;
}

benchmark_case isolated_fault(data_state data) {
  benchmark_case m;
  m.name = std::string(data == data_state::nowhere ? "first_touch" : "faults") +
           "/isolated/data:" + state_names.at(static_cast<std::size_t>(data));
  m.reset_text = reset_text(data);
  m.migrates = true;
  m.prepare = [data](bench& on) { return isolated_fault_trial(on, data); };
  return m;
}

benchmark_case cpu_touch_case(byte_count bytes, byte_count stride, std::optional<advice> hint, access kind) {
  benchmark_case m;
  m.name = std::string("faults/cpu_") + (kind == access::read ? "read" : "write") +
           "/data:device/advice:" + std::string(hint ? to_text(*hint) : "none") +
           "/stride:" + bytes_text(stride) + "/size:" + bytes_text(bytes);
  m.bytes = bytes / stride * sizeof(int);
  m.reset_text = "prefetched to the GPU";
  m.migrates = true;
  m.repetitions = 3;
  m.prepare = [=](bench& on) { return cpu_access_trial(on, bytes, stride, hint, kind); };
  return m;
}

benchmark_case cpu_first_touch(byte_count bytes) {
  benchmark_case m;
  m.name = "first_touch/cpu_write/data:nowhere/size:" + bytes_text(bytes);
  m.bytes = bytes;
  m.reset_text = reset_text(data_state::nowhere);
  m.migrates = true;
  m.repetitions = 3;
  m.prepare = [bytes](bench& on) -> trial {
    const auto memory = std::make_shared<staged_data>(on, data_state::nowhere, bytes);
    return {[memory] { memory->reset(); },
            [memory, bytes] { return time_by_host([&] { fill_by_host({memory->data(), bytes}); }); }};
  };
  return m;
}

std::vector<benchmark_case> first_touch_cases(const device_facts&) {
  std::vector<benchmark_case> all;
  for (const access kind : {access::read, access::write}) {
    all.push_back(gpu_touches({.data = data_state::nowhere, .access_kind = kind, .bytes = 256 * MiB}));
  }
  for (const byte_count stride : {64 * KiB, 128 * KiB, 2 * MiB}) {
    all.push_back(gpu_touches({.data = data_state::nowhere,
                               .access_kind = access::write,
                               .order = access_pattern::strided,
                               .stride = stride}));
  }
  all.push_back(isolated_fault(data_state::nowhere));
  all.push_back(cpu_first_touch(256 * MiB));
  return all;
}

std::vector<benchmark_case> fault_cases(const device_facts& on) {
  std::vector<benchmark_case> all;
  for (const data_state data : {data_state::warm, data_state::cold}) {
    for (const access kind : {access::read, access::write}) {
      all.push_back(gpu_touches({.data = data, .access_kind = kind}));
      for (const byte_count stride : {4 * KiB, 64 * KiB, 128 * KiB, 2 * MiB}) {
        all.push_back(gpu_touches(
            {.data = data, .access_kind = kind, .order = access_pattern::strided, .stride = stride}));
      }
      all.push_back(gpu_touches(
          {.data = data, .access_kind = kind, .order = access_pattern::shuffled, .stride = 4 * KiB}));
    }
    all.push_back(
        gpu_touches({.data = data, .order = access_pattern::chase, .bytes = 32 * MiB, .stride = 4 * KiB}));
    all.push_back(isolated_fault(data));
  }
  for (const access kind : {access::read, access::write}) {
    all.push_back(gpu_touches({.data = data_state::unmapped, .access_kind = kind}));
    all.push_back(gpu_touches({.data = data_state::device, .access_kind = kind, .blocks = 1}));
  }
  for (const byte_count stride : {64 * KiB, 128 * KiB, 2 * MiB}) {
    all.push_back(
        gpu_touches({.data = data_state::unmapped, .order = access_pattern::strided, .stride = stride}));
  }
  all.push_back(isolated_fault(data_state::unmapped));
  for (const access kind : {access::read, access::write}) {
    for (const int blocks : {1, 8, on.multiprocessors}) {
      all.push_back(gpu_touches({.access_kind = kind, .blocks = blocks}));
    }
    all.push_back(system_access(kind, 128 * MiB));
  }
  for (const byte_count stride : {4 * KiB, 64 * KiB, 2 * MiB}) {
    all.push_back(cpu_touch_case(16 * MiB, stride, {}));
    all.push_back(cpu_touch_case(16 * MiB, stride, advice::preferred_device));
    all.push_back(cpu_touch_case(16 * MiB, stride, {}, access::read));
  }
  return all;
}

}  // namespace um::measure
