// Sweeps whose networks may be traces of programs.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "harness/json/json.hpp"

namespace um {

// Makes a graph file from a trace (FILE.jsonl) and returns its path.
using trace_converter = std::function<std::string(const std::string& trace)>;

sweep_spec sweep_from_json(std::string_view text, const std::string& source,
                           const trace_converter& graph_of_trace);

}  // namespace um
