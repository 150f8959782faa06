// Hazards between steps: tracks the last steps of each lane that used each part of a tensor and each byte of
// an arena.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "core/box.hpp"
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
  std::map<byte_count, last_steps> users_from_;  // key: first byte; the value holds up to the next key
};

// Steps are added in list order. Accesses to a cell of one strip, or of a host copy, are ordered like
// accesses to a value: readers wait for the writer, a writer for readers and the writer.
class hazards {
 public:
  explicit hazards(const std::vector<strip_layout>& strips);

  void begin_step(std::int32_t step, lane where);
  // Makes every later step wait for every earlier one.
  void join() { last_joined_ = latest_; }
  void read(tensor_id t, std::uint32_t strip, const std::vector<std::uint32_t>& cells);
  void write(tensor_id t, std::uint32_t strip, const std::vector<std::uint32_t>& cells);
  void read_home(tensor_id t, const std::vector<std::uint32_t>& cells);
  void write_home(tensor_id t, const std::vector<std::uint32_t>& cells);
  // Records a use of bytes. The step waits for the earlier users `before`, which may differ by lane.
  void use(address_users& arena, const range& r, const last_steps& before);
  void wait_for(const last_steps& others);
  void wait_for(lane where, std::int32_t step);
  // The steps of other lanes that the step waits for.
  last_steps awaited_steps() const;

 private:
  struct last_uses {
    last_steps read = no_steps, write = no_steps;
  };
  void read(last_uses& u);
  void write(last_uses& u);

  std::vector<std::vector<std::vector<last_uses>>> device_uses_;  // per tensor, strip, cell
  std::vector<std::vector<last_uses>> home_uses_;                 // per tensor, cell
  last_steps awaited_ = no_steps;                                 // steps that the current step waits for
  last_steps last_joined_ = no_steps;  // last step of each lane before the last join()
  last_steps latest_ = no_steps;       // the last step of each lane so far
  std::int32_t step_ = no_step;        // the current step
  lane lane_ = lane::compute;          // lane of the current step
};

}  // namespace um
