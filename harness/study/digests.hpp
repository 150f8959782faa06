// Strategies may differ only in time: their results must equal those of `device` bit by bit, unless their row
// says that they sum in another order.
#pragma once

#include <map>
#include <string>

#include "harness/study/record.hpp"

namespace um {

// Remembers the digest of `device` for each group and iteration count.
class digest_checker {
 public:
  // Sets the outcome wrong_result, with the reason, if the record's digest differs from that of `device`.
  // Remembers the digest of a successful `device` record.
  void check(record& r);

 private:
  std::map<std::string, std::uint64_t> by_group_;
};

}  // namespace um
