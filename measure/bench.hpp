// The resources of microbenchmarks: one GPU, its streams, and memory that a ledger grants.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "backends/cuda/kernels.hpp"
#include "backends/cuda/session.hpp"
#include "measure/limits.hpp"
#include "um_allocators/arena.hpp"
#include "um_allocators/handle.hpp"
#include "um_allocators/managed_range.hpp"

namespace um::measure {

// Properties of the device that the table of cases depends on.
struct device_facts {
  std::string name;
  int multiprocessors = 1;
  bool pageable_access = false;  // kernels reach memory from malloc (HMM or ATS)
};

// Memory granted by the ledger; freed on destruction.
class leased_memory {
 public:
  leased_memory() = default;
  leased_memory(memory_ledger::lease lease, arena memory)
      : lease_(std::move(lease)), memory_(std::move(memory)) {}
  std::byte* data() const { return memory_.data(); }
  byte_count bytes() const { return memory_.bytes(); }
  managed_range range() const { return {data(), bytes()}; }
  void release() { *this = leased_memory(); }

 private:
  memory_ledger::lease lease_;  // declared first, so that it is returned after the memory is freed
  arena memory_;
};

class bench {
 public:
  // Together with the libraries' streams fewer than the 8 queues that a context has by default: streams that
  // share a queue wait for one another.
  static constexpr std::size_t streams = 4;

  // Throws unsupported if there is no such GPU or it does not page managed memory on demand.
  explicit bench(int device);

  int device() const { return device_; }
  const device_facts& facts() const { return facts_; }
  memory_ledger& ledger() { return ledger_; }
  cudaStream_t stream(std::size_t which = 0) const { return streams_.at(which).get(); }
  kernels::launch_site site(std::size_t which = 0) const { return {stream(which), facts_.multiprocessors}; }

  // Each throws out_of_memory, with the figures, if a limit would be exceeded.
  leased_memory device_memory(byte_count bytes);
  leased_memory pinned_memory(byte_count bytes);
  leased_memory managed_memory(byte_count bytes);
  leased_memory system_memory(byte_count bytes);

  // Memory of at least `min_bytes` that cases share, since 1 GiB takes a third of a second to allocate. Cases
  // may overwrite its contents. release_shared_memory() frees it unless a case still holds it.
  std::shared_ptr<const leased_memory> shared_pinned(byte_count min_bytes);
  std::shared_ptr<const leased_memory> shared_device(byte_count min_bytes);
  void release_shared_memory();

  // cuDNN and cuBLASLt, opened at the first call.
  session& libraries();

 private:
  int device_;
  device_facts facts_;
  std::array<um::cuda_stream, streams> streams_;
  memory_ledger ledger_;
  std::shared_ptr<const leased_memory> shared_pinned_, shared_device_;
  std::unique_ptr<session> libraries_;
};

// Keeps a stream busy for a few milliseconds.
void occupy_stream(bench& on, std::size_t stream);

// --- moves data between repetitions; each function returns when the data is there ---
// Moves data to the CPU and maps it there.
void bring_to_host(const bench& on, managed_range what);
void bring_to_device(const bench& on, managed_range what);
// Fills memory from one CPU thread.
void fill_by_host(managed_range what, int value = 0);

}  // namespace um::measure
