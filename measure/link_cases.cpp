#include <cuda_runtime_api.h>

#include <array>

#include "measure/families.hpp"

namespace um::measure {
namespace {

constexpr int kernel_blocks = 16;  // more than needed to saturate a link

const char* direction_name(copy_direction direction) {
  constexpr std::array<const char*, 4> names{"none", "to_device", "to_host", "both"};
  return names.at(static_cast<std::size_t>(direction));
}

struct one_way_copy {
  std::byte *from, *to;
  byte_count bytes;
  std::size_t stream;
};

void start_copy(const bench& on, copy_method by, const one_way_copy& what) {
  if (by == copy_method::kernel) {
    copy_by_kernel(on.site(what.stream), what.from, what.to, what.bytes, kernel_blocks);
  } else {
    check(cudaMemcpyAsync(what.to, what.from, what.bytes, cudaMemcpyDefault, on.stream(what.stream)));
  }
}

trial copy_trial(bench& on, copy_method by, copy_direction direction, byte_count bytes) {
  const auto pinned = on.shared_pinned(bytes), resident = on.shared_device(bytes);
  std::byte *const host = pinned->data(), *const device = resident->data();
  std::vector<one_way_copy> copies;
  if (direction == copy_direction::both) {
    const byte_count half = bytes / 2;
    copies = {{host, device, half, 0}, {device + half, host + half, half, 1}};
  } else if (direction == copy_direction::to_device) {
    copies = {{host, device, bytes, 0}};
  } else {
    copies = {{device, host, bytes, 0}};
  }
  return {{}, [&on, by, copies, pinned, resident] {
            return time_by_host([&] {
              for (const one_way_copy& c : copies) start_copy(on, by, c);
            });
          }};
}

}  // namespace

benchmark_case pinned_copy(copy_method by, copy_direction direction, byte_count bytes) {
  benchmark_case m;
  m.name = std::string("link/") + (by == copy_method::kernel ? "kernel/" : "copy_engine/") +
           direction_name(direction) + "/size:" + bytes_text(bytes);
  m.bytes = bytes;
  m.link_direction = direction;
  m.reset_text = "nothing to put back: pinned and device memory";
  m.repetitions = bytes <= 16 * MiB ? 20 : 4;
  m.prepare = [=](bench& on) { return copy_trial(on, by, direction, bytes); };
  return m;
}

benchmark_case small_copies(int copies) {
  constexpr byte_count each = 64 * KiB;
  benchmark_case m;
  m.name = "link/small_copies/count:" + std::to_string(copies);
  m.bytes = each * static_cast<byte_count>(copies);
  m.link_direction = copy_direction::to_device;
  m.reset_text = "nothing to put back: pinned and device memory";
  m.repetitions = 10;
  m.prepare = [copies](bench& on) -> trial {
    const auto host = on.shared_pinned(each), device = on.shared_device(each);
    return {{}, [&on, copies, host, device] {
              const one_way_copy copy{host->data(), device->data(), each, 0};
              return time_by_host([&] {
                for (int i = 0; i < copies; ++i) start_copy(on, copy_method::copy_engine, copy);
              });
            }};
  };
  return m;
}

std::vector<benchmark_case> link_cases(const device_facts&) {
  std::vector<benchmark_case> all;
  // Loops over sizes first, so that shared memory grows only a few times.
  for (const byte_count bytes : {64 * KiB, 512 * KiB, 4 * MiB, 32 * MiB, 256 * MiB, 2 * GiB, 8 * GiB}) {
    for (const copy_method by : {copy_method::copy_engine, copy_method::kernel}) {
      for (const copy_direction direction :
           {copy_direction::to_device, copy_direction::to_host, copy_direction::both}) {
        all.push_back(pinned_copy(by, direction, bytes));
      }
    }
  }
  all.push_back(small_copies(256));
  return all;
}

}  // namespace um::measure
