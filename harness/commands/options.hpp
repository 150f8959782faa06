// The command line of `umbench`: commands and their options, with types, ranges and defaults.
#pragma once

#include <string>

#include "harness/commands/commands.hpp"

namespace um {

struct command_line {
  list_options list;
  env_options env;
  calibrate_options calibrate;
  validate_options validate;
  run_options run;
  plan_options plan;
  sweep_options sweep;
  tune_options tune;
  ablate_options ablate;
  advise_options advise;
  machine_options machine;
  merge_options merge;
  pack_options pack;
  plan_torch_options plan_torch;
};

// Fills the options of the given command and returns its name; "" if only --help or --version was given and
// has been answered. Throws input_error. The parser is large: only options.cpp includes it.
std::string parse(int argc, const char* const* argv, command_line& c);

}  // namespace um
