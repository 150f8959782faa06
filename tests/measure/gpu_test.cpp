// On a GPU: the figures are those of an independent program, residency is put back, counts are whole.
#include "tests/cuda/gpu.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "backends/cuda/cupti_counters.hpp"
#include "measure/families.hpp"

namespace um::measure {
namespace {

class microbenchmarks : public gpu_tests::on_gpu {
 protected:
  void SetUp() override {
    on_gpu::SetUp();
    if (IsSkipped()) return;
    try {
      bench_.emplace(0);
    } catch (const unsupported& reason) {
      GTEST_SKIP() << reason.what();
    }
  }
  bench& on() { return *bench_; }

 private:
  std::optional<bench> bench_;
};

// The plain loop of anybody's first program: cudaMemcpy between two buffers, by the host's clock.
double plain_copy_rate(cudaMemcpyKind kind, std::size_t bytes) {
  void *host = nullptr, *device = nullptr;
  EXPECT_EQ(cudaMallocHost(&host, bytes), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&device, bytes), cudaSuccess);
  void* const to = kind == cudaMemcpyHostToDevice ? device : host;
  const void* const from = kind == cudaMemcpyHostToDevice ? host : device;
  constexpr int copies = 10;
  EXPECT_EQ(cudaMemcpy(to, from, bytes, kind), cudaSuccess);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < copies; ++i) EXPECT_EQ(cudaMemcpy(to, from, bytes, kind), cudaSuccess);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
  return static_cast<double>(bytes) * copies / took.count();
}

TEST_F(microbenchmarks, copy_as_fast_as_a_plain_loop) {
  constexpr byte_count bytes = 512 * MiB;
  for (const auto& [direction, kind] : {std::pair(copy_direction::to_device, cudaMemcpyHostToDevice),
                                        std::pair(copy_direction::to_host, cudaMemcpyDeviceToHost)}) {
    const benchmark_case what = pinned_copy(copy_method::copy_engine, direction, bytes);
    double ours = 0, plain = 0;
    // Other programs on the host slow either for a while: the plain loop to 35 of 55 GB/s in one of these
    // runs.
    for (int tries = 0; tries < 3; ++tries) {
      const nanoseconds median = median_total(take_samples(on(), what, 10).later);
      ours = std::max(ours, static_cast<double>(bytes) * 1e9 / static_cast<double>(median));
      on().release_shared_memory();
      plain = std::max(plain, plain_copy_rate(kind, bytes));
    }
    EXPECT_NEAR(ours / plain, 1.0, 0.03) << what.name << ": " << ours / 1e9 << " against " << plain / 1e9;
    RecordProperty(direction == copy_direction::to_device ? "to_device_ratio" : "to_host_ratio",
                   std::to_string(ours / plain));
    std::cout << what.name << ": " << ours / 1e9 << " GB/s, plain loop " << plain / 1e9 << " GB/s\n";
  }
}

TEST_F(microbenchmarks, do_not_pass_their_limits) {
  const memory_limits limits = on().ledger().limits();
  EXPECT_THROW(take_samples(on(), prefetch_case({.bytes = round_up(limits.device + GiB, managed_block)}), 1),
               out_of_memory);
  EXPECT_EQ(on().ledger().granted().device, 0U);
}

TEST_F(microbenchmarks, put_residency_back_before_every_repetition) {
  const samples all = take_samples(on(), gpu_touches({.data = data_state::warm, .bytes = 64 * MiB}), 4);
  const samples there = take_samples(on(), advice_case({}, advised_step::read_again, 64 * MiB), 4);
  // A read that faults everything in takes many times what one of resident data takes.
  for (const repetition& r : all.later) EXPECT_GT(r.total_time, 5 * median_total(there.later));
}

TEST_F(microbenchmarks, of_calibration_measure_both_sides_of_a_difference) {
  for (const benchmark_case& m :
       {round_trip(64 * MiB), discard_and_prefetch_back(64 * MiB), small_prefetches(4),
        faults_on_new_and_seen_blocks(4), isolated_faults_after_pause(4), touches_again_in_blocks(8),
        repeated_isolated_faults(8), host_population(64 * MiB), prefetch_out_beside_in(64 * MiB, 64 * MiB)}) {
    const samples all = take_samples(on(), m, 3);
    ASSERT_FALSE(all.first.counters.empty()) << m.name;
    for (const repetition& r : all.later) {
      for (const auto& [name, value] : r.counters) {
        EXPECT_TRUE(name == "beyond_ns" || value > 500) << m.name << ' ' << name << ": " << value;
      }
    }
    std::cout << m.name;
    for (const auto& [name, value] : all.later.back().counters) std::cout << ' ' << name << ' ' << value;
    std::cout << '\n';
  }
}

TEST_F(microbenchmarks, count_every_byte_that_a_read_pulls_in) {
  std::optional<unified_memory_counter> counter;
  try {
    counter.emplace();
  } catch (const unsupported& reason) {
    GTEST_SKIP() << reason.what();
  }
  // Where the host holds its thread up for long, the driver loses records unseen: once in a while, not
  // always.
  const auto counted = [&](const trial& t, byte_count bytes) {
    unified_memory_counts counts;
    for (int tries = 0; tries < 3 && counts.to_device.total != bytes; ++tries) {
      t.reset();
      counter->start();
      t.run();
      counts = counter->stop();
    }
    return counts;
  };
  for (const byte_count bytes : {64 * MiB, 256 * MiB, GiB}) {
    const trial t = gpu_touches({.data = data_state::warm, .bytes = bytes}).prepare(on());
    const unified_memory_counts counts = counted(t, bytes);
    std::cout << to_text(bytes) << " pulled in: " << counts.record_count << " records of "
              << counts.to_device.total << " bytes, " << counts.faults_by_batch.size() << " batches, "
              << (is_complete(counts) ? "" : "not ") << "whole\n";
    ASSERT_TRUE(is_complete(counts));
    EXPECT_EQ(counts.to_device.total, bytes);
    EXPECT_EQ(counts.to_host.total, 0U);
    EXPECT_GE(counts.gpu_fault_groups, counts.gpu_faults);
  }
}

}  // namespace
}  // namespace um::measure
