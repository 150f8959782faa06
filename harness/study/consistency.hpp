// Checks of records of one file against each other. Strategies may differ only in time: their results must
// equal those of `device` bit by bit, unless their row says that they sum in another order. A file holds one
// version of the figures of each machine and of the rules of each strategy, which keys do not contain.
#pragma once

#include <map>
#include <optional>
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

class settings_checker {
 public:
  // Adds the settings of a record in the file.
  void remember(const record& r);
  // The first setting of this record that differs from the remembered ones, as text without the file's name;
  // nothing if none does. A record without figures agrees with all.
  std::optional<std::string> conflict(const record& r) const;

 private:
  std::map<std::string, std::string> figures_;  // by backend
  std::map<std::string, hint_strategy> rules_;  // by strategy
};

}  // namespace um
