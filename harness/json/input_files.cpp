#include "harness/json/input_files.hpp"

#include <fmt/format.h>

#include <utility>

#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/io/text.hpp"
#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"
#include "harness/json/parts.hpp"

namespace um {

bool is_network_file(std::string_view network) {
  return network.ends_with(".json");
}

network_spec spec_of_file(graph g) {
  const std::string digest = digest_text(dump_line(json_of(g)), 8);
  return imported_spec(std::move(g), digest);
}

network_spec network_from_file(const std::string& path) {
  graph g = graph_from_json(read_file(path), path);
  if (!is_plain_name(g.name)) {
    throw input_error(
        fmt::format("{}: name: \"{}\" cannot stand in a record's key; use lower-case letters, "
                    "digits, '-', '_', '.'",
                    path, one_line(g.name)));
  }
  if (g.ops.empty()) throw input_error(fmt::format("{}: ops: there is no operator; nothing to run", path));
  return spec_of_file(std::move(g));
}

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
