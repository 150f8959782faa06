// Networks and hint strategies from files that users supply: graphs, as `umbench plan --graph` and `umbench
// export` write them, and rules.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph.hpp"
#include "core/machine.hpp"
#include "harness/study/machines.hpp"
#include "hints/rules.hpp"
#include "networks/spec.hpp"

namespace um {

bool is_network_file(std::string_view network);

// The graph as a network, named "NAME#DIGEST" after its content.
network_spec spec_of_file(graph g);

// Throws input_error, with the place of the error, if the file is not a graph file or its graph is invalid.
network_spec network_from_file(const std::string& path);

// Whether a strategy is given as a file of rules: "path/to/FILE.json".
bool is_rules_file(std::string_view strategy);
// Reads the rules of a file; their name is the one of with_digest(). Throws input_error.
hint_strategy rules_from_file(const std::string& path);
// The strategy with the name "NAME#DIGEST". The six digits depend on everything except the summary, so that
// records of two versions of a file have different keys.
hint_strategy with_digest(hint_strategy s);

// Machine files: built into the program, or from a folder that the user names.

struct machine_text {
  std::string file_name, text;
};
// Written at build time from results/machines/*.json.
std::vector<machine_text> embedded_machines();

// All machines by name; a file of `extra` replaces a built-in one of the same name. Throws
// input_error for a file that is malformed or a folder that cannot be read.
std::vector<machine> load_machines(const std::optional<std::filesystem::path>& extra);

}  // namespace um
