// Checks settings that a cell's key does not contain: the figures of its machine and the rules of its
// strategy. A file holds one version of each, so that cells with equal keys are comparable.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "harness/study/record.hpp"

namespace um {

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
