#include "harness/json/rules_file.hpp"

#include "harness/io/files.hpp"
#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"

namespace um {
namespace {

std::string digest_of(hint_strategy s) {
  s.summary.clear();  // the summary does not affect runs
  return digest_text(to_json(s), 6);
}

}  // namespace

bool is_rules_file(std::string_view strategy) {
  return strategy.ends_with(".json");
}

hint_strategy rules_from_file(const std::string& path) {
  return with_digest(hint_strategy_from_json(read_file(path), path));
}

hint_strategy with_digest(hint_strategy s) {
  s.name += "#" + digest_of(s);
  return s;
}

}  // namespace um
