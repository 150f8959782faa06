// Small programs whose migrations of managed memory are known in advance. Each is run alone:
// um_trace_programs NAME [--fixed] [--mib N] It prints one line of JSON: name, seconds of the part that
// counts, bytes that must move each way.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace um::programs {
namespace {

struct program_run {
  double seconds = 0;  // measured
  // Expected bytes that faults move (with the driver's own prefetching), and that prefetches move; negative:
  // unknown.
  double expected_fault_in = -1, expected_fault_out = -1, expected_prefetch_in = -1,
         expected_prefetch_out = -1;
};

struct program {
  const char* name;
  // The finding that umbench explain must list first; "" for a program without a defect.
  const char* planted_finding;
  program_run (*run)(std::size_t bytes, bool fixed);
};

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "um_trace_programs: %s\n", cudaGetErrorString(error));
  std::exit(3);
}

// --- kernels ---

__global__ void read_all(const float* from, std::size_t count, float* sum) {
  float mine = 0;
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    mine += from[i];
  if (mine == -1.5F) *sum = mine;  // keeps the compiler from removing the reads
}

__global__ void write_all(float* to, std::size_t count, float value) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    to[i] = value;
}

__global__ void add_all(float* to, std::size_t count, float value) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    to[i] += value;
}

// Reads one value of every `stride`.
__global__ void read_some(const float* from, std::size_t count, std::size_t stride, float* sum) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x * stride;
  float mine = 0;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * stride; i < count; i += step)
    mine += from[i];
  if (mine == -1.5F) *sum = mine;
}

constexpr int blocks = 264, threads = 512;

// --- memory ---

class managed {
 public:
  explicit managed(std::size_t bytes) : bytes_(bytes) { check(cudaMallocManaged(&at_, bytes)); }
  // Memory that the host has filled with ones.
  static managed of_host(std::size_t bytes) { return managed(bytes, 1); }
  ~managed() { static_cast<void>(cudaFree(at_)); }
  managed(const managed&) = delete;
  managed& operator=(const managed&) = delete;
  float* at() const { return at_; }
  std::size_t count() const { return bytes_ / sizeof(float); }

  // Reads one value of every 4 KiB page.
  float read_on_host() const {
    float sum = 0;
    for (std::size_t i = 0; i < count(); i += 1024) sum += static_cast<volatile float*>(at_)[i];
    return sum;
  }
  void write_on_host(float value) const {
    for (std::size_t i = 0; i < count(); i += 1024) static_cast<volatile float*>(at_)[i] = value;
  }
  void prefetch(cudaMemLocationType where, cudaStream_t stream = nullptr) const {
    check(cudaMemPrefetchAsync(at_, bytes_, cudaMemLocation{where, 0}, 0, stream));
  }
  void to_gpu() const { prefetch(cudaMemLocationTypeDevice); }
  void to_host() const { prefetch(cudaMemLocationTypeHost); }
  void advise(cudaMemoryAdvise advice, cudaMemLocationType where) const {
    check(cudaMemAdvise(at_, bytes_, advice, cudaMemLocation{where, 0}));
  }
  // Makes the GPU access it over the link.
  void keep_on_host() const {
    advise(cudaMemAdviseSetPreferredLocation, cudaMemLocationTypeHost);
    advise(cudaMemAdviseSetAccessedBy, cudaMemLocationTypeDevice);
  }

 private:
  managed(std::size_t bytes, float value) : managed(bytes) {
    for (std::size_t i = 0; i < count(); ++i) at_[i] = value;
  }

  float* at_ = nullptr;
  std::size_t bytes_;
};

float* sum_target() {
  static float* const at = [] {
    float* made = nullptr;
    check(cudaMalloc(&made, sizeof(float)));
    return made;
  }();
  return at;
}

void read(const managed& m) {
  read_all<<<blocks, threads>>>(m.at(), m.count(), sum_target());
  check(cudaGetLastError());
}
void write(const managed& m, float value = 2) {
  write_all<<<blocks, threads>>>(m.at(), m.count(), value);
  check(cudaGetLastError());
}
void add(const managed& m) {
  add_all<<<blocks, threads>>>(m.at(), m.count(), 1);
  check(cudaGetLastError());
}
void finish() {
  check(cudaDeviceSynchronize());
}

using clock = std::chrono::steady_clock;
template <class Work>
double seconds_of(const Work& work) {
  finish();
  const auto begin = clock::now();
  work();
  finish();
  return std::chrono::duration<double>(clock::now() - begin).count();
}

double as_double(std::size_t bytes) {
  return static_cast<double>(bytes);
}

// --- programs of which the bytes that move are known exactly ---

program_run run_stream_by_faults(std::size_t bytes, bool) {
  const managed a = managed::of_host(bytes);
  return {seconds_of([&] { read(a); }), as_double(bytes), 0, 0, 0};
}

program_run run_stream_by_prefetch(std::size_t bytes, bool) {
  const managed a = managed::of_host(bytes);
  const double seconds = seconds_of([&] {
    a.to_gpu();
    read(a);
  });
  return {seconds, 0, 0, as_double(bytes), 0};
}

program_run run_pushed_out(std::size_t bytes, bool) {
  const managed a = managed::of_host(bytes);
  const double seconds = seconds_of([&] {
    a.to_gpu();
    add(a);
    a.to_host();
  });
  return {seconds, 0, 0, as_double(bytes), as_double(bytes)};
}

constexpr int rounds = 4;

program_run run_in_turns(std::size_t bytes, bool) {
  const managed a = managed::of_host(bytes);
  const double seconds = seconds_of([&] {
    for (int i = 0; i < rounds; ++i) {
      add(a);
      finish();
      a.write_on_host(3);
    }
  });
  return {seconds, rounds * as_double(bytes), rounds * as_double(bytes), 0, 0};
}

// Reads every second granule of 64 KiB. They are half of a block, so the driver does not fetch the rest.
program_run run_strided(std::size_t bytes, bool) {
  constexpr std::size_t stride = 128 * 1024 / sizeof(float);
  const managed a = managed::of_host(bytes);
  const double seconds = seconds_of([&] { read_some<<<8, 64>>>(a.at(), a.count(), stride, sum_target()); });
  return {seconds, as_double(bytes) / 2, 0, 0, 0};
}

program_run run_duplicated(std::size_t bytes, bool) {
  const managed a = managed::of_host(bytes);
  a.advise(cudaMemAdviseSetReadMostly, cudaMemLocationTypeDevice);
  const double seconds = seconds_of([&] {
    for (int i = 0; i < rounds; ++i) {
      read(a);
      finish();
      a.read_on_host();
    }
  });
  return {seconds, as_double(bytes), 0, 0, 0};
}

// GPU 0 reads all of one array, GPU 1 half of another, then GPU 1 the array on GPU 0. Needs two GPUs.
program_run run_on_two_gpus(std::size_t bytes, bool) {
  int gpus = 0;
  check(cudaGetDeviceCount(&gpus));
  if (gpus < 2) {
    std::fprintf(stderr, "um_trace_programs: on_two_gpus needs two GPUs\n");
    std::exit(3);
  }
  const managed a = managed::of_host(bytes), b = managed::of_host(bytes);
  const double seconds = seconds_of([&] { read(a); });
  check(cudaSetDevice(1));
  float* sum = nullptr;
  check(cudaMalloc(&sum, sizeof(float)));
  read_all<<<blocks, threads>>>(b.at(), b.count() / 2, sum);
  finish();
  read_all<<<blocks, threads>>>(a.at(), a.count(), sum);
  finish();
  check(cudaFree(sum));
  check(cudaSetDevice(0));
  return {seconds, -1, -1, 0, 0};
}

// --- programs with one defect each, and their fixed forms ---

program_run run_no_prefetch(std::size_t bytes, bool fixed) {
  const managed a = managed::of_host(bytes);
  return {seconds_of([&] {
    if (fixed) a.to_gpu();
    read(a);
  })};
}

// Writes new pages: nothing moves, but every block faults.
program_run run_fresh_output(std::size_t bytes, bool fixed) {
  const managed a(bytes);
  return {seconds_of([&] {
    if (fixed) a.to_gpu();
    write(a);
  })};
}

program_run run_late_prefetch(std::size_t bytes, bool fixed) {
  const managed a = managed::of_host(bytes);
  cudaStream_t beside{};
  check(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
  return {seconds_of([&] {
    if (fixed) {
      a.to_gpu();
      read(a);
    } else {
      read(a);
      std::this_thread::sleep_for(
          std::chrono::milliseconds(30));  // by then most of the data has moved by faults
      a.prefetch(cudaMemLocationTypeDevice, beside);
    }
  })};
}

program_run run_prefetch_to_the_wrong_side(std::size_t bytes, bool fixed) {
  const managed a = managed::of_host(bytes);
  return {seconds_of([&] {
    if (fixed) {
      a.to_gpu();
    } else {
      a.to_host();
    }
    read(a);
  })};
}

program_run run_ping_pong(std::size_t bytes, bool fixed) {
  const managed a = managed::of_host(bytes);
  return {seconds_of([&] {
    for (int i = 0; i < rounds; ++i) {
      if (fixed) a.to_gpu();
      add(a);
      if (fixed) a.to_host();
      finish();
      a.write_on_host(3);
    }
  })};
}

program_run run_table_without_advice(std::size_t bytes, bool fixed) {
  const managed a = managed::of_host(bytes);
  if (fixed) a.advise(cudaMemAdviseSetReadMostly, cudaMemLocationTypeDevice);
  return {seconds_of([&] {
    for (int i = 0; i < rounds; ++i) {
      read(a);
      finish();
      a.read_on_host();
    }
  })};
}

// The host updates a counter in every block of the GPU's data.
program_run run_shared_blocks(std::size_t bytes, bool fixed) {
  constexpr std::size_t block = 2 * 1024 * 1024 / sizeof(float);
  const managed a(bytes);
  std::vector<float> own(a.count() / block + 1);
  a.to_gpu();
  write(a);
  return {seconds_of([&] {
    for (int i = 0; i < 2 * rounds; ++i) {
      add(a);
      finish();
      for (std::size_t b = 0; b * block < a.count(); ++b) {
        float& counter = fixed ? own[b] : a.at()[b * block];
        static_cast<volatile float&>(counter) = counter + 1;
      }
    }
  })};
}

program_run run_sparse_reads(std::size_t bytes, bool fixed) {
  constexpr std::size_t stride = 128 * 1024 / sizeof(float);
  const managed a = managed::of_host(bytes);
  if (fixed) a.keep_on_host();
  return {seconds_of([&] { read_some<<<8, 64>>>(a.at(), a.count(), stride, sum_target()); })};
}

program_run run_pinned_to_the_host(std::size_t bytes, bool fixed) {
  const managed a = managed::of_host(bytes);
  if (!fixed) a.keep_on_host();
  return {seconds_of([&] {
    if (fixed) a.to_gpu();
    for (int i = 0; i < 4 * rounds; ++i) read(a);
  })};
}

// The driver handles such writes page by page, so that even few bytes take long.
program_run run_duplicates_that_are_written(std::size_t bytes, bool fixed) {
  const managed a = managed::of_host(bytes / 32);
  if (!fixed) a.advise(cudaMemAdviseSetReadMostly, cudaMemLocationTypeDevice);
  a.to_gpu();
  return {seconds_of([&] {
    for (int i = 0; i < 2 * rounds; ++i) {
      add(a);
      if (!fixed) a.to_gpu();
    }
  })};
}

program_run run_pushed_out_and_used_again(std::size_t bytes, bool fixed) {
  const managed a = managed::of_host(bytes);
  a.to_gpu();
  return {seconds_of([&] {
    for (int i = 0; i < rounds; ++i) {
      add(a);
      if (!fixed) a.to_host();
    }
    add(a);
  })};
}

// The GPU writes and the CPU reads: by faults, or fixed by a prefetch to the host.
program_run run_written_and_read_back(const managed& a, bool fixed) {
  a.to_gpu();
  write(a);
  return {seconds_of([&] {
    if (fixed) a.to_host();
    finish();
    a.read_on_host();
  })};
}

program_run run_result_read_by_faults(std::size_t bytes, bool fixed) {
  return run_written_and_read_back(managed(bytes), fixed);
}

// --- programs that were not used to write the rules of umbench explain ---

program_run run_one_of_three_forgotten(std::size_t bytes, bool fixed) {
  const std::size_t each = bytes / 2;
  const managed a = managed::of_host(each), b = managed::of_host(each), c = managed::of_host(each);
  return {seconds_of([&] {
    a.to_gpu();
    if (fixed) b.to_gpu();
    c.to_gpu();
    for (const managed* m : {&a, &b, &c}) add(*m);
  })};
}

program_run run_half_prefetched(std::size_t bytes, bool fixed) {
  const managed a = managed::of_host(bytes);
  return {seconds_of([&] {
    check(cudaMemPrefetchAsync(a.at(), fixed ? bytes : bytes / 2,
                               cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0, nullptr));
    read(a);
  })};
}

program_run run_parameters_that_travel(std::size_t bytes, bool fixed) {
  const managed data(bytes), parameters = managed::of_host(bytes / 8);
  data.to_gpu();
  write(data);
  if (fixed) parameters.advise(cudaMemAdviseSetReadMostly, cudaMemLocationTypeDevice);
  return {seconds_of([&] {
    for (int i = 0; i < 2 * rounds; ++i) {
      add(data);
      read(parameters);
      finish();
      parameters.read_on_host();
    }
  })};
}

program_run run_read_back_from_a_preferred_gpu(std::size_t bytes, bool fixed) {
  const managed a(bytes / 4);
  a.advise(cudaMemAdviseSetPreferredLocation, cudaMemLocationTypeDevice);
  return run_written_and_read_back(a, fixed);
}

program_run run_gathered_rows(std::size_t bytes, bool fixed) {
  constexpr std::size_t stride = 256 * 1024 / sizeof(float);
  const managed a = managed::of_host(bytes);
  if (fixed) a.keep_on_host();
  return {seconds_of([&] {
    for (int i = 0; i < rounds; ++i)
      read_some<<<4, 32>>>(a.at() + i * 1024, a.count() - i * 1024, stride, sum_target());
  })};
}

program_run run_cleared_on_the_host(std::size_t bytes, bool fixed) {
  const managed a(bytes);
  a.to_gpu();
  return {seconds_of([&] {
    for (int i = 0; i < rounds; ++i) {
      if (fixed) a.to_host();
      finish();
      std::memset(a.at(), 0, bytes);
      if (fixed) a.to_gpu();
      add(a);
    }
  })};
}

constexpr program programs[] = {
    {"stream_by_faults", "", run_stream_by_faults},
    {"stream_by_prefetch", "", run_stream_by_prefetch},
    {"pushed_out", "", run_pushed_out},
    {"in_turns", "", run_in_turns},
    {"strided", "", run_strided},
    {"duplicated", "", run_duplicated},
    {"on_two_gpus", "", run_on_two_gpus},
    {"no_prefetch", "prefetch_missing", run_no_prefetch},
    {"fresh_output", "first_touch", run_fresh_output},
    {"late_prefetch", "prefetch_late", run_late_prefetch},
    {"prefetch_to_the_wrong_side", "prefetch_wrong_way", run_prefetch_to_the_wrong_side},
    {"ping_pong", "ping_pong", run_ping_pong},
    {"table_without_advice", "read_mostly_missing", run_table_without_advice},
    {"shared_blocks", "false_sharing", run_shared_blocks},
    {"sparse_reads", "sparse", run_sparse_reads},
    {"pinned_to_the_host", "remote_hot", run_pinned_to_the_host},
    {"duplicates_that_are_written", "read_mostly_written", run_duplicates_that_are_written},
    {"pushed_out_and_used_again", "pushed_out", run_pushed_out_and_used_again},
    {"result_read_by_faults", "host_faults", run_result_read_by_faults},
    {"one_of_three_forgotten", "prefetch_missing", run_one_of_three_forgotten},
    {"half_prefetched", "prefetch_missing", run_half_prefetched},
    {"parameters_that_travel", "read_mostly_missing", run_parameters_that_travel},
    {"read_back_from_a_preferred_gpu", "host_faults", run_read_back_from_a_preferred_gpu},
    {"gathered_rows", "sparse", run_gathered_rows},
    {"cleared_on_the_host", "ping_pong", run_cleared_on_the_host},
};

}  // namespace

}  // namespace um::programs

int main(int argc, char** argv) {
  using namespace um::programs;
  std::size_t mib = 512;
  bool fixed = false;
  std::string wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--fixed") {
      fixed = true;
    } else if (word == "--mib" && i + 1 < argc) {
      mib = std::strtoul(argv[++i], nullptr, 10);
    } else {
      wanted = word;
    }
  }
  std::size_t free_bytes = 0, all_bytes = 0;
  for (const program& p : programs) {
    if (wanted != p.name) continue;
    if (cudaMemGetInfo(&free_bytes, &all_bytes) != cudaSuccess) {
      std::fprintf(stderr, "um_trace_programs: no GPU\n");
      return 3;
    }
    if (mib == 0 || mib % 64 != 0 || (mib << 20) > free_bytes / 4) {
      std::fprintf(stderr,
                   "um_trace_programs: --mib wants a multiple of 64 below a quarter of what is free\n");
      return 2;
    }
    const program_run t = p.run(mib << 20, fixed);
    std::printf(
        "{\"program\":\"%s\",\"fixed\":%s,\"plants\":\"%s\",\"seconds\":%.6f,\"fault_in_bytes\":%.0f,"
        "\"fault_out_bytes\":%.0f,\"prefetch_in_bytes\":%.0f,\"prefetch_out_bytes\":%.0f}\n",
        p.name, fixed ? "true" : "false", p.planted_finding, t.seconds, t.expected_fault_in,
        t.expected_fault_out, t.expected_prefetch_in, t.expected_prefetch_out);
    return 0;
  }
  for (const program& p : programs) std::printf("%s %s\n", p.name, p.planted_finding);
  return wanted.empty() ? 0 : 2;
}
