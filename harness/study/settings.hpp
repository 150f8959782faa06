// Settings of a cell that its key does not contain: the figures of its machine and the rules of its strategy.
// A file holds one version of each, so that cells of one key are comparable.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "harness/study/record.hpp"

namespace um {

class settings_book {
 public:
  // A record that is there.
  void note(const record& r);
  // What of this record goes by another setting than the ones noted, as a line without its file; nothing if
  // none does. A record without figures agrees with all.
  std::optional<std::string> conflict(const record& r) const;

 private:
  std::map<std::string, std::string> figures_;  // by backend
  std::map<std::string, hint_strategy> rules_;  // by strategy
};

}  // namespace um
