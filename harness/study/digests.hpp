// Strategies differ in time only: they must compute what `device` computes, to the bit, unless their
// row says that they sum in another order.
#pragma once

#include <map>
#include <string>

#include "harness/study/record.hpp"

namespace um {

// Remembers the digest of `device` for each group and iteration count.
class digest_book {
 public:
  // Makes the outcome wrong_result, with the reason, if the record's digest is not the one that
  // `device` had; remembers the digest of an ok `device` record.
  void check(record& r);

 private:
  std::map<std::string, std::uint64_t> by_group_;
};

}  // namespace um
