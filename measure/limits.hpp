// The memory that microbenchmarks may hold at a time, and a ledger that refuses more. Does not use CUDA.
#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "core/units.hpp"

namespace um::measure {

// Managed and device memory together stay below `device`; host memory of every kind, that behind
// managed memory included, below `host`.
struct memory_limits {
  byte_count device = 0, host = 0;  // bytes
};

// Limits: 80 % of the free device memory and half of the available host memory.
memory_limits limits_of(byte_count free_device, byte_count available_host);

// Host memory that a program can allocate without swapping out others: the minimum of the kernel's
// MemAvailable and of what the limits of its control group (version 2 or 1) and of the groups above leave.
// Nothing if the kernel does not report it. /proc and /sys are read below `root`.
std::optional<byte_count> available_host_bytes(const std::filesystem::path& root = "/");

// Size of one allocation; managed memory counts on both sides.
struct footprint {
  byte_count device = 0, host = 0;
};

class memory_ledger {
 public:
  // Memory taken from the ledger; returned on destruction. The ledger must outlive it.
  class lease {
   public:
    lease() = default;
    lease(memory_ledger& from, footprint what) : ledger_(&from), footprint_(what) {}
    lease(lease&& other) noexcept
        : ledger_(std::exchange(other.ledger_, nullptr)), footprint_(other.footprint_) {}
    lease& operator=(lease&& other) noexcept {
      std::swap(ledger_, other.ledger_);
      std::swap(footprint_, other.footprint_);
      return *this;
    }
    ~lease() {
      if (ledger_ != nullptr) ledger_->give_back(footprint_);
    }

   private:
    memory_ledger* ledger_ = nullptr;
    footprint footprint_;
  };

  explicit memory_ledger(memory_limits limits) : limits_(limits) {}
  memory_ledger(const memory_ledger&) = delete;
  memory_ledger& operator=(const memory_ledger&) = delete;

  const memory_limits& limits() const { return limits_; }
  footprint granted() const { return granted_; }
  // Throws out_of_memory, with the figures, if a limit would be exceeded.
  [[nodiscard]] lease grant(footprint what);

 private:
  void give_back(footprint what);

  memory_limits limits_;
  footprint granted_;
};

}  // namespace um::measure
