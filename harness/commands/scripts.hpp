// Commands of `umbench` that are modules of the Python package umbench (python/umbench, plots): they read
// record files only.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace um {

struct script_command {
  const char* name;
  const char* module;  // module of the Python package umbench
  const char* summary;
};
std::span<const script_command> script_commands();
// nullptr if no script has that name.
const script_command* find_script(const std::string& command);

// Replaces this process by the module. python/start.py is looked up in the folder that UMBENCH_HOME names,
// then in the folders above the program. The interpreter is that of UMBENCH_PYTHON, else /usr/bin/python3,
// else the first python3 in PATH. Throws input_error if one of them is missing.
[[noreturn]] void exec_script(const script_command& command, const std::vector<std::string>& arguments);

// Turns a trace into a network: writes FILE.graph.json beside FILE.jsonl and returns its path. Throws
// script_failure.
std::string graph_of_trace(const std::string& trace);

// Prints the slowdowns of a record file (plots/table.py). Prints the reason if Python or the package is
// missing.
void print_slowdowns(const std::string& records);

// Thrown if a script failed; the script has reported why.
struct script_failure {
  int exit_code;
};

}  // namespace um
