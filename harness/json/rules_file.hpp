// Hint strategies from files of rules.
#pragma once

#include <string>
#include <string_view>

#include "hints/rules.hpp"

namespace um {

// Whether a strategy is given as a file of rules: "path/to/FILE.json".
bool is_rules_file(std::string_view strategy);
// Its rules, under the name that with_digest gives. Throws input_error.
hint_strategy rules_from_file(const std::string& path);
// Named "NAME#DIGEST" with six digits that depend on all but the summary, so that records of two
// versions of a file stay apart.
hint_strategy with_digest(hint_strategy s);

}  // namespace um
