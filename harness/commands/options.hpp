// The command line of `umbench`: commands and their options, with types, ranges and defaults.
#pragma once

namespace um {

// Runs the given command and returns its exit code; 0 after --help and --version. Throws input_error, and
// what the command throws. The parser is large: only options.cpp includes it.
int run_command_line(int argc, const char* const* argv);

}  // namespace um
