#include "harness/json/rules_file.hpp"

#include <fmt/format.h>

#include <span>

#include "backends/digest.hpp"
#include "harness/io/files.hpp"
#include "harness/json/json.hpp"

namespace um {
namespace {

std::string digest_of(hint_strategy s) {
  s.summary.clear();  // changes nothing that is run
  const std::string text = to_json(s);
  digest all;
  all.add(std::as_bytes(std::span(text)));
  return fmt::format("{:06x}", all.value() & 0xffffff);
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
