#include <cuda_runtime_api.h>

#include <array>
#include <memory>

#include "measure/families.hpp"

namespace um::measure {
namespace {

constexpr std::array<const char*, 6> discard_steps{
    "discard", "discard_and_prefetch", "discard_then_prefetch", "prefetch", "write_after_prefetch", "write"};
constexpr std::array<const char*, 6> discard_resets{
    "on the GPU and written there",
    "on the GPU and written there",
    "on the GPU and written there",
    "on the GPU, written there and discarded",
    "on the GPU, written there, discarded and prefetched",
    "allocated anew, written by the CPU, brought to the GPU, written there and discarded"};

class discarded_data {
 public:
  discarded_data(bench& on, discard_step step, byte_count bytes, bool queued)
      : bench_(on), step_(step), queued_(queued), bytes_(bytes) {
    allocate_again();
  }

  void reset() {
    if (step_ == discard_step::write)
      allocate_again();  // data that was mapped page by page stays mapped so, so it is allocated again
    bring_to_device(bench_, memory_.range());
    write();
    check(cudaStreamSynchronize(bench_.stream()));
    if (step_ == discard_step::prefetch || step_ == discard_step::write ||
        step_ == discard_step::write_after_prefetch) {
      if (queued_) occupy_stream(bench_, 0);
      discard();
    }
    check(cudaStreamSynchronize(bench_.stream()));
    if (step_ == discard_step::write_after_prefetch) bring_to_device(bench_, memory_.range());
  }
  void run() {
    switch (step_) {
      case discard_step::discard:
        return discard();
      case discard_step::discard_and_prefetch:
        return discard_and_prefetch_to_device(memory_.range(), bench_.device(), bench_.stream());
      case discard_step::discard_then_prefetch:
        discard();
        return prefetch();
      case discard_step::prefetch:
        return prefetch();
      case discard_step::write_after_prefetch:
      case discard_step::write:
        return write();
    }
  }

 private:
  void allocate_again() {
    memory_.release();
    memory_ = bench_.managed_memory(bytes_);
    fill_by_host(memory_.range());
  }
  void discard() { discard_range(memory_.range(), bench_.stream()); }
  void write() { touch_all(bench_.site(), memory_.data(), bytes_, access::write); }
  void prefetch() { prefetch_to_device(memory_.range(), bench_.device(), bench_.stream()); }

  bench& bench_;
  discard_step step_;
  bool queued_;
  byte_count bytes_;
  leased_memory memory_;
};

}  // namespace

benchmark_case discard_case(discard_step step, byte_count bytes, bool queued) {
  const auto which = static_cast<std::size_t>(step);
  benchmark_case m;
  m.name = std::string("discard/") + discard_steps.at(which) + (queued ? "_queued" : "") +
           "/size:" + bytes_text(bytes);
  m.bytes = bytes;
  m.reset_text = discard_resets.at(which);
  if (queued) m.reset_text += " while its stream was at work";
  m.migrates = true;
  m.repetitions = bytes <= 32 * MiB && step != discard_step::write ? 10 : 3;
  m.prepare = [=](bench& on) -> trial {
    const auto data = std::make_shared<discarded_data>(on, step, bytes, queued);
    return {[data] { data->reset(); }, [data] { return time_by_host([&] { data->run(); }); }};
  };
  return m;
}

benchmark_case prefetch_discarded_to_host(byte_count bytes, bool populated) {
  benchmark_case m;
  m.name = std::string("discard/prefetch_to_host/pages:") + (populated ? "there" : "new") +
           "/size:" + bytes_text(bytes);
  m.bytes = bytes;
  m.reset_text = std::string("allocated anew, ") + (populated ? "written by the CPU, " : "") +
                 "written by the GPU and discarded";
  m.migrates = true;
  m.repetitions = 3;
  m.prepare = [=](bench& on) -> trial {
    const auto memory = std::make_shared<leased_memory>();
    return {[&on, memory, bytes, populated] {
              memory->release();
              *memory = on.managed_memory(bytes);
              if (populated) {
                fill_by_host(memory->range());
                bring_to_device(on, memory->range());
              }
              touch_all(on.site(), memory->data(), bytes, access::write);
              check(cudaStreamSynchronize(on.stream()));
              discard_range(memory->range(), on.stream());
              check(cudaStreamSynchronize(on.stream()));
            },
            [&on, memory] { return time_by_host([&] { prefetch_to_host(memory->range(), on.stream()); }); }};
  };
  return m;
}

std::vector<benchmark_case> discard_cases(const device_facts&) {
  std::vector<benchmark_case> all;
  for (std::size_t step = 0; step < discard_steps.size(); ++step) {
    const auto what = static_cast<discard_step>(step);
    if (what == discard_step::write) {
      for (const byte_count bytes : {2 * MiB, 16 * MiB}) {
        for (const bool queued : {false, true}) all.push_back(discard_case(what, bytes, queued));
      }
      continue;
    }
    for (const byte_count bytes : {2 * MiB, 32 * MiB, 256 * MiB, GiB})
      all.push_back(discard_case(what, bytes));
  }
  for (const bool populated : {false, true}) all.push_back(prefetch_discarded_to_host(256 * MiB, populated));
  return all;
}

}  // namespace um::measure
