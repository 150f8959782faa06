// The command line of `umbench`: its commands and their options, with types, ranges and what stands without them.
#pragma once

#include "harness/commands/commands.hpp"

namespace CLI {
class App;
}

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
  merge_options merge;
  pack_options pack;
};

// What is parsed goes to `c`, which must live as long as `app`.
void describe(CLI::App& app, command_line& c);

}  // namespace um
