#include <cuda_runtime_api.h>

#include <array>
#include <memory>

#include "measure/families.hpp"

namespace um::measure {
namespace {

constexpr std::array<const char*, 6> advice_steps{"advise",           "read",     "read_again", "write",
                                                  "write_after_read", "cpu_touch"};

std::string advice_names(const std::vector<advice>& hints) {
  std::string name;
  for (const advice hint : hints) name += (name.empty() ? "" : "+") + std::string(to_text(hint));
  return name.empty() ? "none" : name;
}

// Managed memory that reset() moves to the CPU, and to which advice is given before or during the
// measurement.
class advised_data {
 public:
  advised_data(bench& on, std::vector<advice> hints, advised_step step, byte_count bytes)
      : bench_(on), hints_(std::move(hints)), step_(step), memory_(on.managed_memory(bytes)) {
    fill_by_host(memory_.range());
    bring_to_device(on, memory_.range());
  }

  void reset() {
    for (const advice hint : hints_) withdraw_advice(memory_.range(), hint, bench_.device());
    bring_to_host(bench_, memory_.range());
    if (step_ == advised_step::advise) return;
    advise();
    if (step_ == advised_step::read || step_ == advised_step::write) return;
    touch(access::read);
    check(cudaStreamSynchronize(bench_.stream()));
  }
  repetition run() {
    return time_by_host([&] {
      if (step_ == advised_step::advise) return advise();
      if (step_ == advised_step::cpu_touch) return touch_by_cpu();
      const bool reads = step_ == advised_step::read || step_ == advised_step::read_again;
      touch(reads ? access::read : access::write);
    });
  }

 private:
  void advise() {
    for (const advice hint : hints_) advise_range(memory_.range(), hint, bench_.device());
  }
  void touch(access kind) { touch_all(bench_.site(), memory_.data(), memory_.bytes(), kind); }
  void touch_by_cpu() {
    for (byte_count at = 0; at < memory_.bytes(); at += 4 * KiB) {
      *reinterpret_cast<volatile int*>(memory_.data() + at) = 0;
    }
  }

  bench& bench_;
  std::vector<advice> hints_;
  advised_step step_;
  leased_memory memory_;
};

std::string advice_reset_text(advised_step step) {
  constexpr const char* base = "advice withdrawn, prefetched to the CPU";
  if (step == advised_step::advise) return base;
  if (step == advised_step::read || step == advised_step::write) return std::string(base) + ", advised anew";
  return std::string(base) + ", advised anew, read by the GPU";
}

benchmark_case pinned_access_case(access kind, byte_count bytes) {
  benchmark_case m;
  m.name = std::string("advice/pinned_zero_copy/") + (kind == access::read ? "read" : "write") +
           "/size:" + bytes_text(bytes);
  m.bytes = bytes;
  m.link_direction = kind == access::read ? copy_direction::to_device : copy_direction::to_host;
  m.reset_text = "nothing to put back: pinned memory, reached over the link";
  m.prepare = [kind, bytes](bench& on) -> trial {
    const auto memory = std::make_shared<leased_memory>(on.pinned_memory(bytes));
    return {{}, [&on, kind, memory] {
              return time_by_host([&] { touch_all(on.site(), memory->data(), memory->bytes(), kind); });
            }};
  };
  return m;
}

}  // namespace

benchmark_case advice_case(const std::vector<advice>& hints, advised_step step, byte_count bytes) {
  benchmark_case m;
  m.name = "advice/" + advice_names(hints) + '/' + advice_steps.at(static_cast<std::size_t>(step)) +
           "/size:" + bytes_text(bytes);
  if (step != advised_step::advise) m.bytes = bytes;
  if (step == advised_step::read || step == advised_step::write) m.link_direction = copy_direction::to_device;
  if (step == advised_step::cpu_touch) m.bytes = bytes / (4 * KiB) * sizeof(int);
  m.reset_text = advice_reset_text(step);
  m.migrates = true;
  m.repetitions = 3;
  m.prepare = [=](bench& on) -> trial {
    const auto data = std::make_shared<advised_data>(on, hints, step, bytes);
    return {[data] { data->reset(); }, [data] { return data->run(); }};
  };
  return m;
}

std::vector<benchmark_case> advice_cases(const device_facts&) {
  const std::array<std::vector<advice>, 6> hints{{{},
                                                  {advice::read_mostly},
                                                  {advice::preferred_device},
                                                  {advice::preferred_host},
                                                  {advice::accessed_by_device},
                                                  {advice::preferred_host, advice::accessed_by_device}}};
  constexpr byte_count bytes = 32 * MiB;
  std::vector<benchmark_case> all;
  for (const std::vector<advice>& given : hints) {
    for (std::size_t step = given.empty() ? 1 : 0; step < advice_steps.size(); ++step) {
      all.push_back(advice_case(given, static_cast<advised_step>(step), bytes));
    }
  }
  for (const access kind : {access::read, access::write}) all.push_back(pinned_access_case(kind, 256 * MiB));
  return all;
}

}  // namespace um::measure
