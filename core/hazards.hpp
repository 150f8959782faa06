// Hazards between steps: tracks the last steps of each lane that used each part of a tensor and each byte of
// an arena.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/box.hpp"
#include "core/layout.hpp"
#include "core/strips.hpp"
#include "core/trace.hpp"

namespace um {

inline constexpr std::int32_t no_step = -1;
using last_steps = std::array<std::int32_t, lane_count>;
inline constexpr last_steps no_steps{no_step, no_step, no_step};

// For each byte of an arena, the last step of each lane that used it.
class address_users {
 public:
  last_steps users_of(const range& r) const;
  void record(const range& r, lane where, std::int32_t step);

 private:
  std::map<byte_count, last_steps>::iterator split_at(byte_count at);
  std::map<byte_count, last_steps> users_from_;  // key: first byte of a range that ends at the next key
};

// Finds the steps that a step must wait for. Steps are added in list order. A reader of a cell waits for its
// writer; a writer waits for its readers and its writer. Each strip and the host copy count separately.
class hazards {
 public:
  explicit hazards(const std::vector<strip_layout>& strips);

  void begin_step(std::int32_t step, lane where);
  // Makes every later step wait for every earlier one.
  void join() { last_joined_ = latest_; }
  void read(tensor_id t, std::uint32_t strip, const std::vector<std::uint32_t>& cells) {
    for (const std::uint32_t c : cells) {
      if (last_uses* const u = device_uses_[t][strip].find(c)) read(*u);
    }
  }
  void write(tensor_id t, std::uint32_t strip, const std::vector<std::uint32_t>& cells) {
    for (const std::uint32_t c : cells) {
      if (last_uses* const u = device_uses_[t][strip].find(c)) write(*u);
    }
  }
  void read_host_copy(tensor_id t, const std::vector<std::uint32_t>& cells) {
    for (const std::uint32_t c : cells) read(host_copy_uses_[t][c]);
  }
  void write_host_copy(tensor_id t, const std::vector<std::uint32_t>& cells) {
    for (const std::uint32_t c : cells) write(host_copy_uses_[t][c]);
  }
  // Records that the current step uses a range of bytes.
  // It waits for `earlier_users`, one step per lane.
  void use(address_users& arena, const range& r, const last_steps& earlier_users);
  void wait_for(const last_steps& others);
  void wait_for(lane where, std::int32_t step);
  // The steps of other lanes that the current step waits for.
  last_steps awaited_steps() const;

 private:
  struct last_uses {
    last_steps read = no_steps, write = no_steps;
  };
  // Last uses of the cells of one strip; cells that are not listed have none.
  struct strip_uses {
    std::vector<std::uint32_t> cells;  // in order
    std::vector<last_uses> uses;       // per cell
    last_uses* find(std::uint32_t cell);
  };
  void read(last_uses& u);
  void write(last_uses& u);

  std::vector<std::vector<strip_uses>> device_uses_;    // per tensor, strip
  std::vector<std::vector<last_uses>> host_copy_uses_;  // per tensor, cell
  last_steps awaited_ = no_steps;                       // steps that the current step waits for
  last_steps last_joined_ = no_steps;                   // last step of each lane before the last join()
  last_steps latest_ = no_steps;                        // the last step of each lane so far
  std::int32_t step_ = no_step;                         // the current step
  lane lane_ = lane::compute;                           // lane of the current step
};

// Hazards between tensors that share addresses: a step that uses bytes of an arena waits for all earlier
// steps that used these bytes, also for other tensors.
class address_hazards {
 public:
  // Keeps references. Adds waits to the current step of `waits`.
  address_hazards(const lifetime_table& table, const layout& at, hazards& waits);

  // Records that the current step uses the addresses of a lifetime. It waits for the steps that used them
  // before the lifetime.
  void use_addresses(std::uint32_t lifetime);
  void use_addresses(const strip_use& u) {
    for (const std::uint32_t l : u.lifetimes) use_addresses(l);
  }

  // Records that a step moves ranges of a managed tensor. It uses their addresses even if the tensor is dead
  // or left over from the previous iteration: data may come in only after the data released at its addresses
  // has left.
  void release_addresses(tensor_id t, const std::vector<range>& what, lane where, std::int32_t step);
  void wait_for_release(const range& r);

 private:
  const lifetime_table& table_;
  const layout& layout_;
  hazards& hazards_;
  std::vector<std::optional<last_steps>>
      previous_users_;  // per lifetime used so far: the steps that used its addresses before it
  address_users device_, managed_;
  address_users releases_;  // per byte of the managed arena: steps that released it
};

}  // namespace um
