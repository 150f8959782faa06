// Managed memory brought into a state before every repetition.
#pragma once

#include "measure/bench.hpp"
#include "measure/families.hpp"

namespace um::measure {

// Describes what reset() does, for the label of a case.
const char* reset_text(data_state data);

// `bytes`: whole blocks. Data in states that keep their pages is allocated once, other data by every reset().
class staged_data {
 public:
  staged_data(bench& on, data_state wanted, byte_count bytes);
  void reset();
  std::byte* data() const { return memory_.data(); }
  managed_range range() const { return memory_.range(); }

 private:
  bool is_kept() const { return wanted_ == data_state::warm || wanted_ == data_state::device; }
  void populate_unmapped();

  bench& bench_;
  data_state wanted_;
  byte_count bytes_;
  leased_memory memory_;
};

}  // namespace um::measure
