#include <cuda_runtime_api.h>

#include <array>
#include <memory>

#include "measure/families.hpp"
#include "measure/staged_data.hpp"

namespace um::measure {
namespace {

constexpr std::array<const char*, 5> state_names{"nowhere", "cold", "warm", "unmapped", "device"};
constexpr std::array<const char*, 4> pattern_names{"sequential", "strided", "shuffled", "chase"};

void issue(const bench& on, const gpu_access& what, std::byte* data) {
  const visiting order = what.in == pattern::shuffled ? visiting::shuffled : visiting::ascending;
  switch (what.in) {
    case pattern::sequential:
      return touch_all(on.site(), data, what.bytes, what.how, what.blocks);
    case pattern::strided:
    case pattern::shuffled:
      return touch_strided(on.site(), data, what.bytes, what.stride, what.how, order);
    case pattern::chase:
      return chase(on.site(), data, what.bytes, what.stride, visiting::shuffled, nullptr);
  }
}

std::string name_of(const gpu_access& a) {
  std::string name = a.data == state::nowhere ? "first_touch/gpu_" : "faults/gpu_";
  name += a.how == access::read ? "read/" : "write/";
  name += pattern_names.at(static_cast<std::size_t>(a.in));
  name += std::string("/data:") + state_names.at(static_cast<std::size_t>(a.data));
  if (a.stride != 0) name += "/stride:" + in_name(a.stride);
  if (a.blocks != 0) name += "/blocks:" + std::to_string(a.blocks);
  return name + "/size:" + in_name(a.bytes);
}

// Every read's time by the GPU's clock.
trial chased_blocks(bench& on, state wanted) {
  constexpr byte_count places = 64;
  const auto memory = std::make_shared<staged_data>(on, wanted, places * managed_block);
  const auto times = std::make_shared<grant>(on.device_memory(places * sizeof(std::uint32_t)));
  return {[memory] { memory->put_back(); },
          [&on, memory, times] {
            auto* const each = reinterpret_cast<std::uint32_t*>(times->data());
            repetition r = timed([&] {
              chase(on.site(), memory->data(), places * managed_block, managed_block, visiting::ascending,
                    each);
            });
            std::array<std::uint32_t, places> read{};
            check(cudaMemcpy(read.data(), each, sizeof(read), cudaMemcpyDeviceToHost));
            r.more["idle_fault_ns"] = read.front();  // the driver had nothing to do
            r.more["fault_ns"] = median_of({read.begin() + 1, read.end()});
            r.more["shortest_fault_ns"] = *std::min_element(read.begin(), read.end());
            return r;
          }};
}

void touch_by_cpu(managed_range what, byte_count stride, access how) {
  for (byte_count at = 0; at < what.bytes; at += stride) {
    auto* const place = reinterpret_cast<volatile int*>(what.data + at);
    if (how == access::read) {
      static_cast<void>(*place);
    } else {
      *place = 0;
    }
  }
}

trial cpu_reaches(bench& on, byte_count bytes, byte_count stride, std::optional<advice> hint, access how) {
  const auto memory = std::make_shared<grant>(on.managed_memory(bytes));
  fill_by_host(memory->range());
  if (hint) advise_range(memory->range(), *hint, on.device());
  return {[&on, memory] { bring_to_device(on, memory->range()); },
          [memory, bytes, stride, how] {
            repetition r = timed([&] { touch_by_cpu(memory->range(), stride, how); });
            r.more["ns_per_touch"] =
                static_cast<double>(r.total) * static_cast<double>(stride) / static_cast<double>(bytes);
            return r;
          }};
}

measurement system_access(access how, byte_count bytes) {
  measurement m;
  m.name = std::string("faults/gpu_") + (how == access::read ? "read" : "write") +
           "/sequential/data:malloc/size:" + in_name(bytes);
  m.bytes = bytes;
  m.over_link = way::to_device;
  m.put_back = "allocated anew by malloc and written by the CPU";
  m.prepare = [how, bytes](bench& on) -> trial {
    if (!on.facts().pageable_access) {
      throw unsupported("kernels cannot reach memory from malloc here (pageableMemoryAccess is 0)");
    }
    const auto memory = std::make_shared<grant>();
    return {[&on, memory, bytes] {
              memory->release();
              *memory = on.system_memory(bytes);
              fill_by_host(memory->range());
            },
            [&on, memory, how, bytes] {
              return timed([&] { touch_all(on.site(), memory->data(), bytes, how); });
            }};
  };
  return m;
}

}  // namespace

measurement gpu_touches(const gpu_access& what) {
  measurement m;
  const bool whole = what.in == pattern::sequential;
  const byte_count touches = whole ? 0 : what.bytes / what.stride;
  m.name = name_of(what);
  m.bytes = whole ? what.bytes : touches * sizeof(int);
  m.over_link =
      whole && what.data != state::nowhere && what.data != state::device ? way::to_device : way::none;
  m.put_back = put_back_of(what.data);
  m.migrates = what.data != state::device;
  if (m.over_link != way::none) m.brings_in = what.bytes;
  m.repetitions = 3;
  m.prepare = [what, touches](bench& on) -> trial {
    const auto memory = std::make_shared<staged_data>(on, what.data, what.bytes);
    return {[memory] { memory->put_back(); },
            [&on, what, touches, memory] {
              repetition r = timed([&] { issue(on, what, memory->data()); });
              if (touches != 0)
                r.more["ns_per_touch"] = static_cast<double>(r.total) / static_cast<double>(touches);
              return r;
            }};
  };
  return m;
}

measurement isolated_fault(state data) {
  measurement m;
  m.name = std::string(data == state::nowhere ? "first_touch" : "faults") +
           "/isolated/data:" + state_names.at(static_cast<std::size_t>(data));
  m.put_back = put_back_of(data);
  m.migrates = true;
  m.prepare = [data](bench& on) { return chased_blocks(on, data); };
  return m;
}

measurement cpu_touches(byte_count bytes, byte_count stride, std::optional<advice> hint, access how) {
  measurement m;
  m.name = std::string("faults/cpu_") + (how == access::read ? "read" : "write") +
           "/data:device/advice:" + std::string(hint ? to_text(*hint) : "none") +
           "/stride:" + in_name(stride) + "/size:" + in_name(bytes);
  m.bytes = bytes / stride * sizeof(int);
  m.put_back = "prefetched to the GPU";
  m.migrates = true;
  m.repetitions = 3;
  m.prepare = [=](bench& on) { return cpu_reaches(on, bytes, stride, hint, how); };
  return m;
}

measurement cpu_first_touch(byte_count bytes) {
  measurement m;
  m.name = "first_touch/cpu_write/data:nowhere/size:" + in_name(bytes);
  m.bytes = bytes;
  m.put_back = put_back_of(state::nowhere);
  m.migrates = true;
  m.repetitions = 3;
  m.prepare = [bytes](bench& on) -> trial {
    const auto memory = std::make_shared<staged_data>(on, state::nowhere, bytes);
    return {[memory] { memory->put_back(); },
            [memory, bytes] { return timed([&] { fill_by_host({memory->data(), bytes}); }); }};
  };
  return m;
}

std::vector<measurement> first_touch_cases(const device_facts&) {
  std::vector<measurement> all;
  for (const access how : {access::read, access::write}) {
    all.push_back(gpu_touches({.data = state::nowhere, .how = how, .bytes = 256 * MiB}));
  }
  for (const byte_count stride : {64 * KiB, 128 * KiB, 2 * MiB}) {
    all.push_back(gpu_touches(
        {.data = state::nowhere, .how = access::write, .in = pattern::strided, .stride = stride}));
  }
  all.push_back(isolated_fault(state::nowhere));
  all.push_back(cpu_first_touch(256 * MiB));
  return all;
}

std::vector<measurement> fault_cases(const device_facts& on) {
  std::vector<measurement> all;
  for (const state data : {state::warm, state::cold}) {
    for (const access how : {access::read, access::write}) {
      all.push_back(gpu_touches({.data = data, .how = how}));
      for (const byte_count stride : {4 * KiB, 64 * KiB, 128 * KiB, 2 * MiB}) {
        all.push_back(gpu_touches({.data = data, .how = how, .in = pattern::strided, .stride = stride}));
      }
      all.push_back(gpu_touches({.data = data, .how = how, .in = pattern::shuffled, .stride = 4 * KiB}));
    }
    all.push_back(gpu_touches({.data = data, .in = pattern::chase, .bytes = 32 * MiB, .stride = 4 * KiB}));
    all.push_back(isolated_fault(data));
  }
  for (const access how : {access::read, access::write}) {
    all.push_back(gpu_touches({.data = state::unmapped, .how = how}));
    all.push_back(gpu_touches({.data = state::device, .how = how, .blocks = 1}));
  }
  for (const byte_count stride : {64 * KiB, 128 * KiB, 2 * MiB}) {
    all.push_back(gpu_touches({.data = state::unmapped, .in = pattern::strided, .stride = stride}));
  }
  all.push_back(isolated_fault(state::unmapped));
  for (const access how : {access::read, access::write}) {
    for (const int blocks : {1, 8, on.multiprocessors}) {
      all.push_back(gpu_touches({.how = how, .blocks = blocks}));
    }
    all.push_back(system_access(how, 128 * MiB));
  }
  for (const byte_count stride : {4 * KiB, 64 * KiB, 2 * MiB}) {
    all.push_back(cpu_touches(16 * MiB, stride, {}));
    all.push_back(cpu_touches(16 * MiB, stride, advice::preferred_device));
    all.push_back(cpu_touches(16 * MiB, stride, {}, access::read));
  }
  return all;
}

}  // namespace um::measure
