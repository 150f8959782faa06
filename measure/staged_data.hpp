// Managed memory brought into a state before every repetition.
#pragma once

#include "measure/bench.hpp"
#include "measure/families.hpp"

namespace um::measure {

// How put_back() below does it, for labels.
const char* put_back_of(state data);

// In whole blocks. What may keep its pages from repetition to repetition is made at once, the rest anew
// by every put_back().
class staged_data {
 public:
  staged_data(bench& on, state wanted, byte_count bytes);
  void put_back();
  std::byte* data() const { return memory_.data(); }
  managed_range range() const { return memory_.range(); }

 private:
  bool is_kept() const { return wanted_ == state::warm || wanted_ == state::device; }
  void populate_unmapped();

  bench& on_;
  state wanted_;
  byte_count bytes_;
  grant memory_;
};

}  // namespace um::measure
