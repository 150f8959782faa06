#include <fmt/format.h>

#include "core/errors.hpp"
#include "harness/commands/cells.hpp"
#include "harness/commands/limits.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/io/progress.hpp"
#include "harness/io/say.hpp"
#include "harness/json/json.hpp"
#include "harness/process/flow.hpp"
#include "harness/study/modules.hpp"
#include "harness/study/summary.hpp"

namespace um {
namespace {

std::string table_of(const planned& made, bool wanted) {
  if (!wanted) return "";
  const auto rows = modules_of(*made.file.network.built, made.file.plan);
  if (rows.empty()) {
    throw input_error(fmt::format("--table: {} names no modules; umbench export writes a graph that does",
                                  made.file.network.spec.name));
  }
  return text_of(rows);
}

}  // namespace

int plan_command(const plan_options& options) {
  std::vector<std::string> taken = files_of(options.what);
  check_output("--out", options.out, taken);
  taken.push_back(options.out);
  check_output("--graph", options.graph_out, taken);
  const auto machines = machines_in(options.what.machines);
  cell work = on_machine(cell_asked_for(options.what), machines);
  if (!work.where.simulated) {
    // Where the GPU is missing, a child says so; only then does this process open it.
    signal_watch signals;
    environment_for(std::span(&work, 1), machines, options.what.like, signals);
  }
  const std::jthread progress = ticking("planning");
  const limits within("planning", std::chrono::seconds{work.what.deadline_s}, work.where.simulated);
  try {
    const planned made = plan_cell(work);
    const std::string table = table_of(made, options.table);
    if (!options.graph_out.empty()) write_file(options.graph_out, to_json(*made.file.network.built));
    if (!options.out.empty()) write_file(options.out, to_json(made.file));
    if (options.out != "-" && options.graph_out != "-") {
      fmt::print("{}  {:<11}{}\n{}{}", summary(made), "machine", provenance(*work.on), setting_rows(work),
                 table);
    }
    return 0;
  } catch (const infeasible& error) {
    say("umbench: no plan: infeasible: {}\n", error.what());
  } catch (const unsupported& error) {
    say("umbench: no plan: unsupported: {}\n", error.what());
  } catch (const out_of_memory& error) {
    say("umbench: no plan: out of memory: {}\n", error.what());
  }
  return 1;
}

}  // namespace um
