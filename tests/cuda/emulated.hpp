// What a kernel's source needs to be compiled for the CPU and run there; included before the source itself.
// Blocks run one after the other, the threads of a block in turns.
#pragma once

#include <cuda_runtime.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __shared__
#define __shared__ static

namespace um::kernels {

inline uint3 threadIdx{}, blockIdx{};
inline dim3 gridDim, blockDim;

using std::max;
using std::min;

inline std::uint32_t __umulhi(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::uint64_t{a} * b >> 32);
}
inline float __uint_as_float(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline float __ldg(const float* at) {
  return *at;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}

namespace emulated {

constexpr unsigned warp_threads = 32, max_threads = 1024;

// Of threads of a block: who arrives goes on once all that have not ended are there.
struct meeting {
  unsigned expected = 0, arrived = 0, held = 0;
  void release_if_all() {
    if (arrived < expected) return;
    arrived = 0;
    ++held;
  }
};

struct thread {
  jmp_buf place;
  bool begun = false;
  std::vector<std::byte> stack = std::vector<std::byte>(std::size_t{64} << 10);
  bool ended = false;
};

// The block that runs. Its threads take turns: each runs until it has to wait for others.
struct block_state {
  std::vector<thread> threads = std::vector<thread>(max_threads);
  std::array<meeting, max_threads / warp_threads> of_warp;
  meeting of_all;
  std::array<float, max_threads> given;  // by each thread to its warp
  jmp_buf turns;
  unsigned now = 0;  // the thread whose turn it is
  std::function<void()> kernel;
};
inline block_state& block() {
  static block_state it;
  return it;
}

// Jumps ask nothing of the operating system, which swapcontext() does.
inline void end_turn() {
  if (_setjmp(block().threads[block().now].place) == 0) _longjmp(block().turns, 1);
}

inline void meet(meeting& where) {
  const unsigned before = where.held;
  ++where.arrived;
  where.release_if_all();
  while (where.held == before) end_turn();
}

// Kernel by kernel, as long as the program runs.
[[noreturn]] inline void run_thread() {
  block_state& b = block();
  for (;;) {
    b.kernel();
    b.threads[b.now].ended = true;
    for (meeting* m :
         {&b.of_all, &b.of_warp[b.now / warp_threads]}) {  // as on a GPU, nobody waits for who has ended
      --m->expected;
      m->release_if_all();
    }
    end_turn();
  }
}

inline void take_turn(thread& t) {
  if (_setjmp(block().turns) != 0) return;
  if (t.begun) _longjmp(t.place, 1);
  t.begun = true;
  ucontext_t first;
  getcontext(&first);
  first.uc_stack = {t.stack.data(), 0, t.stack.size()};
  makecontext(&first, run_thread, 0);
  setcontext(&first);
}

inline void run_block() {
  block_state& b = block();
  const unsigned count = blockDim.x * blockDim.y;
  b.of_all = {count};
  b.of_warp = {};
  for (unsigned t = 0; t < count; ++t) {
    b.threads[t].ended = false;
    ++b.of_warp[t / warp_threads].expected;
  }
  while (b.of_all.expected > 0) {
    for (b.now = 0; b.now < count; ++b.now) {
      threadIdx = {b.now % blockDim.x, b.now / blockDim.x, 0};
      if (!b.threads[b.now].ended) take_turn(b.threads[b.now]);
    }
  }
}

inline void run(dim3 grid, dim3 threads, std::function<void()> kernel) {
  gridDim = grid;
  blockDim = threads;
  block().kernel = std::move(kernel);
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z) {
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) run_block();
    }
  }
}

}  // namespace emulated

inline void __syncthreads() {
  emulated::meet(emulated::block().of_all);
}
inline float __shfl_down_sync(unsigned, float value, unsigned distance) {
  emulated::block_state& b = emulated::block();
  const unsigned mine = b.now, from = mine + distance;
  emulated::meeting& warp = b.of_warp[mine / emulated::warp_threads];
  b.given[mine] = value;
  emulated::meet(warp);
  const float taken = from / emulated::warp_threads == mine / emulated::warp_threads ? b.given[from] : value;
  emulated::meet(warp);
  return taken;
}

}  // namespace um::kernels
