#include "backends/cuda/kernels/launch.cuh"

namespace um::kernels {
namespace {

// All blocks are resident at once, so none waits for another. They leave threads and shared memory
// for one block of link_copy.cu. Otherwise a copy waits until the operator ends, and an operator that begins
// beside a copy takes twice its time, since some of its blocks begin when others end.
constexpr int blocks_that_fit = 8, blocks_per_multiprocessor = blocks_that_fit - 1;
// Percent of shared memory in the memory that it shares with the L1 cache. A multiprocessor changes the
// division only when it is idle.
constexpr int shared_percent = 72;
constexpr std::int64_t launch_ns = 2000;    // overhead of a kernel, which the duration includes
constexpr std::int64_t min_wave_ns = 5000;  // the timer of some GPUs ticks once a microsecond
constexpr std::int64_t latency_ns = 5000;   // of a wave, in addition to its time at full bandwidth
constexpr std::int64_t max_waves = 1024;

__device__ std::int64_t now_ns() {
  std::uint64_t at;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(at));
  return static_cast<std::int64_t>(at);
}

// Waits by sleeping: warps that poll the timer without a pause delay the loads and stores of others. A sleep
// may last twice as long as requested, so it requests half of the rest.
__device__ void wait_until(std::int64_t end) {
  constexpr std::int64_t shortest_ns = 64, longest_ns = 500'000;
  for (std::int64_t left = end - now_ns(); left > 0; left = end - now_ns()) {
    __nanosleep(static_cast<unsigned>(min(max(left / 2, shortest_ns), longest_ns)));
  }
}

// Returns small numbers, as f32 and as pairs of bf16 alike, and 0 for integers, so that no index is out of
// range.
__device__ std::uint32_t value_at(std::int64_t i, bool floating, std::uint32_t read) {
  const std::uint32_t bits = static_cast<std::uint32_t>(i) * 0x9e3779b9U;
  const std::uint32_t value = floating ? 0x3c003c00U | (bits & 0x007f007fU) : 0U;
  return read == 0x5bd1e995U ? value & 0x3c003c00U : value;  // so the compiler does not remove the read
}

// The share of an operand that the kernel touches in each wave, in units of 16 bytes, or of one byte if the
// address is not aligned. The host computes it: in a kernel the divisions for a dozen operands take longer
// than a wave.
struct touched_operand {
  std::byte* address;
  std::int64_t units, units_a_wave;
  std::int32_t tail_bytes;  // bytes after the last unit of 16 bytes
  bool reads, writes, is_floating_point, is_wide;
};
struct wave_operands {
  touched_operand operands[max_replayed_operands];
  int count = 0;
};

touched_operand touched_in_waves(const replayed_operand& o, std::int64_t waves) {
  const bool wide = reinterpret_cast<std::uintptr_t>(o.address) % 16 == 0;
  const std::int64_t units = wide ? o.bytes / 16 : o.bytes;
  return {o.address,
          units,
          divide_up(units, waves),
          static_cast<std::int32_t>(o.bytes - units * (wide ? 16 : 1)),
          o.reads,
          o.writes,
          o.is_floating_point,
          wide};
}

__device__ void touch_byte(const touched_operand& operand, std::int64_t i, std::uint32_t& read) {
  if (operand.reads) read ^= static_cast<std::uint32_t>(operand.address[i]);
  if (operand.writes)
    operand.address[i] = static_cast<std::byte>(value_at(0, operand.is_floating_point, read) >> (i % 2 * 8));
}

// Reads or writes units [begin, end). The blocks share them.
__device__ void touch_units(const touched_operand& operand, std::int64_t begin, std::int64_t end,
                            std::uint32_t& read) {
  const std::int64_t step = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t i = begin + thread_index<std::int64_t>(); i < end; i += step) {
    if (!operand.is_wide) {
      touch_byte(operand, i, read);
      continue;
    }
    uint4* const at = reinterpret_cast<uint4*>(operand.address) + i;
    if (operand.reads) {
      const uint4 v = *at;
      read ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    const std::uint32_t v = value_at(i, operand.is_floating_point, read);
    if (operand.writes) *at = uint4{v, v, v, v};
  }
}

// Works in waves. Each touches its share of every operand, then waits until its share of the duration is
// over. If its accesses were delayed, it still waits for the time by which computing exceeds accessing. A
// wave that sleeps too long shortens the next one. If accesses take all of the time, only the last wave
// waits.
__global__ void __launch_bounds__(block_threads, blocks_that_fit)
    replay_waves(const __grid_constant__ wave_operands all, std::int64_t waves, std::int64_t wave_ns,
                 std::int64_t computing_ns) {
  std::uint32_t read = 0;
  std::int64_t due = now_ns();
  for (std::int64_t wave = 0; wave < waves; ++wave) {
    const bool is_last = wave + 1 == waves;
    for (int o = 0; o < all.count; ++o) {
      const touched_operand& operand = all.operands[o];
      const std::int64_t begin = wave * operand.units_a_wave;
      touch_units(operand, begin, min(begin + operand.units_a_wave, operand.units), read);
      if (is_last && thread_index<std::int32_t>() < operand.tail_bytes)
        touch_byte(operand, operand.units * 16 + thread_index<std::int32_t>(), read);
    }
    due += wave_ns;
    if (computing_ns == 0 && !is_last) continue;
    __syncthreads();
    if (threadIdx.x == 0) {
      due = max(due, now_ns() + computing_ns);
      wait_until(due);
    }
    __syncthreads();
  }
}

}  // namespace

void replay(launch_site where, const replayed_operator& replayed, std::int64_t bytes_per_s) {
  std::int64_t bytes = 0;
  for (int o = 0; o < replayed.count; ++o) {
    bytes += replayed.operands[o].bytes * (replayed.operands[o].reads && replayed.operands[o].writes ? 2 : 1);
  }
  const std::int64_t threads = divide_up(bytes, 16);
  const std::int64_t max_blocks = std::int64_t{where.multiprocessors} * blocks_per_multiprocessor;
  const auto blocks =
      static_cast<int>(std::clamp<std::int64_t>(divide_up(threads, block_threads), 1, max_blocks));
  const std::int64_t duration = std::max<std::int64_t>(replayed.duration_ns - launch_ns, 0);
  const std::int64_t waves = std::clamp<std::int64_t>(
      std::min(duration / min_wave_ns, threads / (std::int64_t{blocks} * block_threads)), 1, max_waves);
  // The time of accesses is estimated with a margin, so that a wave without delays does not outlast its
  // share.
  const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_s);
  const auto touching = static_cast<std::int64_t>(std::min(seconds * 1.3e9, static_cast<double>(duration)));
  const std::int64_t computing = std::max<std::int64_t>((duration - touching) / waves - latency_ns, 0);
  wave_operands all;
  all.count = replayed.count;
  for (int o = 0; o < all.count; ++o) all.operands[o] = touched_in_waves(replayed.operands[o], waves);
  check(cudaFuncSetAttribute(&replay_waves, cudaFuncAttributePreferredSharedMemoryCarveout, shared_percent));
  launch(where, &replay_waves, blocks, block_threads, all, waves, duration / waves, computing);
}

}  // namespace um::kernels
