#include "harness/json/input_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/io/text.hpp"
#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"

namespace um {
namespace {

std::vector<std::filesystem::path> json_files(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  std::filesystem::directory_iterator entry(folder, error);
  if (error) {
    throw input_error(
        fmt::format("{}: {}; --machines wants a folder of machine files", folder.string(), error.message()));
  }
  for (const auto& found : entry) {
    if (found.path().extension() == ".json") files.push_back(found.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void insert_machine(std::vector<machine>& machines, machine added) {
  const auto same =
      std::find_if(machines.begin(), machines.end(), [&](const machine& m) { return m.name == added.name; });
  if (same == machines.end()) {
    machines.push_back(std::move(added));
  } else {
    *same = std::move(added);
  }
}

}  // namespace

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

std::vector<machine> load_machines(const std::optional<std::filesystem::path>& extra) {
  std::vector<machine> machines;
  for (const machine_text& m : embedded_machines()) {
    insert_machine(machines, machine_from_json(m.text, m.file_name));
  }
  if (extra) {
    for (const auto& file : json_files(*extra)) {
      insert_machine(machines, machine_from_json(read_file(file), file.string()));
    }
  }
  return machines;
}

}  // namespace um
