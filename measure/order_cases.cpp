#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "core/quantiles.hpp"
#include "measure/calibration_sizes.hpp"
#include "measure/families.hpp"

namespace um::measure {
namespace {

constexpr std::array<const char*, 6> walk_names{"waves",  "grid_stride",   "chunk_a_thread",
                                                "random", "block_strided", "sparse_pages"};
constexpr const char* put_back_of_part = "prefetched to the CPU, the end of it to the GPU";

// Managed data of zeros whose end is on the device, and the times at which granules were read.
class partly_resident_data {
 public:
  partly_resident_data(bench& on, byte_count bytes, int percent)
      : bench_(on),
        resident_bytes_(round_down(bytes / 100 * static_cast<byte_count>(percent), managed_block)),
        memory_(on.managed_memory(bytes)),
        times_(on.device_memory(bytes / granule * sizeof(std::uint64_t))) {
    fill_by_host(memory_.range());
    bring_to_device(on, memory_.range());
  }

  void reset() {
    bring_to_host(bench_, memory_.range());
    bring_to_device(bench_, {memory_.data() + memory_.bytes() - resident_bytes_, resident_bytes_});
    check(cudaMemset(times_.data(), 0, times_.bytes()));
  }
  std::byte* data() const { return memory_.data(); }
  byte_count bytes() const { return memory_.bytes(); }
  std::uint64_t* times() const { return reinterpret_cast<std::uint64_t*>(times_.data()); }

  void add_counters(repetition& r) const {
    std::vector<std::uint64_t> all(memory_.bytes() / granule);
    check(cudaMemcpy(all.data(), times_.data(), times_.bytes(), cudaMemcpyDeviceToHost));
    const std::size_t first_there = (memory_.bytes() - resident_bytes_) / granule;
    std::uint64_t begin = 0;
    for (const std::uint64_t t : all) {
      if (t != 0) begin = begin == 0 ? t : std::min(begin, t);
    }
    std::vector<double> hits, misses;
    for (std::size_t g = 0; g < all.size(); ++g) {
      if (all[g] == 0) continue;  // the kernel skipped this granule
      (g >= first_there ? hits : misses).push_back(static_cast<double>(all[g] - begin));
    }
    if (hits.empty() || misses.empty()) return;
    r.counters["hits_ns"] = median_of(hits);
    r.counters["misses_ns"] = median_of(misses);
    const auto ahead = std::ranges::count_if(hits, [&](double t) { return t < r.counters["misses_ns"]; });
    r.counters["hits_ahead_percent"] = 100.0 * static_cast<double>(ahead) / static_cast<double>(hits.size());
  }

 private:
  bench& bench_;
  byte_count resident_bytes_;
  leased_memory memory_, times_;
};

// The case without `prepare`.
benchmark_case order_case_without_work(std::string name, byte_count read_bytes) {
  benchmark_case m;
  m.name = std::move(name);
  m.bytes = read_bytes;
  m.link_direction = copy_direction::to_device;
  m.reset_text = put_back_of_part;
  m.migrates = true;
  m.repetitions = 5;
  return m;
}

std::string order_name(const char* read_order, byte_count bytes, int percent) {
  return std::string("order/") + read_order + "/resident:" + std::to_string(percent) +
         "/size:" + bytes_text(bytes);
}

}  // namespace

benchmark_case read_partly_resident(read_order order, byte_count bytes, int percent) {
  const byte_count read = order == read_order::sparse_pages         ? bytes / granule * 16
                          : order == read_order::every_second_block ? bytes / 2
                                                                    : bytes;
  benchmark_case m = order_case_without_work(
      order_name(walk_names.at(static_cast<std::size_t>(order)), bytes, percent), read);
  m.prepare = [=](bench& on) -> trial {
    const auto data = std::make_shared<partly_resident_data>(on, bytes, percent);
    return {[data] { data->reset(); },
            [&on, data, order] {
              repetition r = time_by_host(
                  [&] { read_in_order(on.site(), data->data(), data->bytes(), order, data->times()); });
              data->add_counters(r);
              return r;
            }};
  };
  return m;
}

benchmark_case chase_partly_resident(byte_count bytes, int percent) {
  benchmark_case m =
      order_case_without_work(order_name("pointer_chase", bytes, percent), bytes / granule * sizeof(int));
  m.prepare = [=](bench& on) -> trial {
    const auto data = std::make_shared<partly_resident_data>(on, bytes, percent);
    return {[data] { data->reset(); },
            [&on, data] {
              return time_by_host([&] {
                chase(on.site(), data->data(), data->bytes(), granule, visit_order::ascending, nullptr);
              });
            }};
  };
  return m;
}

std::vector<benchmark_case> order_cases(const device_facts&) {
  constexpr byte_count bytes = 256 * MiB;  // a power of two
  std::vector<benchmark_case> all;
  for (const int percent : {50, 67, 80, 90}) {
    for (const read_order order :
         {read_order::waves, read_order::grid_stride, read_order::chunk_a_thread, read_order::random,
          read_order::every_second_block, read_order::sparse_pages}) {
      all.push_back(read_partly_resident(order, bytes, percent));
    }
    all.push_back(chase_partly_resident(bytes, percent));
  }
  return all;
}

}  // namespace um::measure
