#include "measure/bench.hpp"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "measure/access.hpp"

namespace um::measure {
namespace {

int select_device(int device) {
  require_gpu(device);
  check(cudaSetDevice(device));
  require_demand_paging(device);
  return device;
}

device_facts facts_of(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device));
  return {properties.name, properties.multiProcessorCount,
          device_attribute(cudaDevAttrPageableMemoryAccess, device) != 0};
}

memory_limits limits_of_this_machine() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  // Without MemAvailable, assumes that 4 GiB are available.
  return limits_of(free, available_host_bytes().value_or(4 * GiB));
}

std::array<um::cuda_stream, bench::streams> make_streams() {
  std::array<um::cuda_stream, bench::streams> all;
  for (um::cuda_stream& s : all) s = make_stream();
  return all;
}

void free_system_memory(void* data) noexcept {
  std::free(data);
}

// Launches kernels once, so that loading them does not count in a first repetition.
void load_kernels(bench& on) {
  constexpr byte_count bytes = 64 * KiB;
  const leased_memory a = on.device_memory(bytes), b = on.device_memory(bytes);
  const kernels::launch_site where = on.site();
  for (const access kind : {access::write, access::read}) {
    touch_all(where, a.data(), bytes, kind);
    touch_strided(where, a.data(), bytes, 4096, kind, visit_order::shuffled);
  }
  chase(where, a.data(), bytes, 4096, visit_order::ascending, nullptr);
  copy_by_kernel(where, a.data(), b.data(), bytes, 1);
  launch_nothing(where);
  check(cudaStreamSynchronize(where.stream));
}

}  // namespace

bench::bench(int device)
    : device_(select_device(device)),
      facts_(facts_of(device)),
      streams_(make_streams()),
      ledger_(limits_of_this_machine()) {
  load_kernels(*this);
}

leased_memory bench::device_memory(byte_count bytes) {
  auto lease = ledger_.grant({bytes, 0});
  return {std::move(lease), device_arena(bytes)};
}
leased_memory bench::pinned_memory(byte_count bytes) {
  auto lease = ledger_.grant({0, bytes});
  return {std::move(lease), pinned_arena(bytes)};
}
leased_memory bench::managed_memory(byte_count bytes) {
  auto lease = ledger_.grant({bytes, bytes});
  return {std::move(lease), managed_arena(bytes)};
}
// Kernels may migrate it to the GPU, so it counts on both sides.
leased_memory bench::system_memory(byte_count bytes) {
  auto lease = ledger_.grant({facts_.pageable_access ? bytes : 0, bytes});
  void* const data = std::aligned_alloc(managed_block, round_up(bytes, managed_block));
  if (data == nullptr) throw out_of_memory("cannot allocate " + to_text(bytes) + " of system memory");
  return {std::move(lease), arena(data, bytes, &free_system_memory)};
}

std::shared_ptr<const leased_memory> bench::shared_pinned(byte_count min_bytes) {
  if (!shared_pinned_ || shared_pinned_->bytes() < min_bytes) {
    shared_pinned_.reset();
    shared_pinned_ = std::make_shared<leased_memory>(pinned_memory(min_bytes));
  }
  return shared_pinned_;
}
std::shared_ptr<const leased_memory> bench::shared_device(byte_count min_bytes) {
  if (!shared_device_ || shared_device_->bytes() < min_bytes) {
    shared_device_.reset();
    shared_device_ = std::make_shared<leased_memory>(device_memory(min_bytes));
  }
  return shared_device_;
}
void bench::release_shared_memory() {
  shared_pinned_.reset();
  shared_device_.reset();
}

session& bench::libraries() {
  if (!libraries_) libraries_ = std::make_unique<session>(device_, cuda_options{});
  return *libraries_;
}

void occupy_stream(bench& on, std::size_t stream) {
  constexpr byte_count bytes = 64 * MiB;
  // One block touches it all, so that it is slow.
  touch_all(on.site(stream), on.shared_device(bytes)->data(), bytes, access::write, 1);
}

void bring_to_host(const bench& on, managed_range what) {
  prefetch_to_host(what, on.stream());
  check(cudaStreamSynchronize(on.stream()));
}
void bring_to_device(const bench& on, managed_range what) {
  prefetch_to_device(what, on.device(), on.stream());
  check(cudaStreamSynchronize(on.stream()));
}
void fill_by_host(managed_range what, int value) {
  std::memset(what.data, value, what.bytes);
}

}  // namespace um::measure
