// Graphs, plans, machines, sweeps, experiments and records as JSON text. Every reader is strict:
// for an unknown or missing field, a wrong type, a negative or too large number it throws an input_error that
// names `source`, the field and the remedy. Reading a written text gives an equal value.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/graph.hpp"
#include "core/machine.hpp"
#include "harness/study/advice.hpp"
#include "harness/study/cell.hpp"
#include "harness/study/environment.hpp"
#include "harness/study/plan_file.hpp"
#include "harness/study/record.hpp"
#include "harness/study/sweep.hpp"
#include "harness/validate/validation.hpp"
#include "hints/rules.hpp"
#include "measure/figures.hpp"

namespace um {

std::string to_json(const graph& g);
graph graph_from_json(std::string_view text, const std::string& source);
// The JSON Schema, results/graph.schema.json.
std::string graph_schema();

std::string to_json(const machine& m);
// Digest of all figures of a machine in 16 hexadecimal digits; independent of its name and of their sources.
std::string digest_of_figures(const machine& of);
machine machine_from_json(std::string_view text, const std::string& source);
// The machine with these measured figures, which are named as in machine files ("uvm.fault_ns"). The
// quartiles of their samples become bounds of times and rates. All other figures are listed as estimated and
// keep their bounds; inferred figures are listed, too.
machine with_measured_figures(machine base, const measure::figures& found);
// A machine file that also keeps the spread of the samples of each figure.
std::string to_json(const machine& of, const measure::calibration& from);
std::string to_json(const measure::readings& all);
// Throws input_error, naming `source`, unless it is an object of lists of numbers, none of them empty.
measure::readings readings_from_json(std::string_view text, const std::string& source);

// Tensors and operators are written by name, so both directions build the network.
std::string to_json(const plan_file& file);
// Digest of a plan in six hexadecimal digits: its residences, actions, packer and budget.
std::string digest_of_plan(const plan_file& file);
plan_file plan_from_json(std::string_view text, const std::string& source);
// The JSON Schema, results/plan.schema.json.
std::string plan_schema();

// A hint strategy, as in files of users and in records.
std::string to_json(const hint_strategy& s);
hint_strategy hint_strategy_from_json(std::string_view text, const std::string& source);
// The JSON Schema, results/rules.schema.json.
std::string rules_schema();
std::string machine_schema();

// The table of strategies, for scripts (docs/records.md).
std::string to_json(std::span<const strategy> rows);
// The document that `umbench advise --json` prints; at least one strategy was tried.
std::string to_json(const memory_advice& a);

std::vector<known_figure> published_figures_from_json(std::string_view text, const std::string& source);

sweep_spec sweep_from_json(std::string_view text, const std::string& source);
// The JSON Schema, results/sweep.schema.json.
std::string sweep_schema();

// Records and environments are single lines without the line break.
std::string to_json(const record& r);
record record_from_json(std::string_view line, const std::string& source);
// The JSON Schema of both, results/record.schema.json.
std::string record_schema();
// The document with a GPU's facts, which a child process sends.
std::string to_json(const gpu_facts& gpu);
gpu_facts gpu_from_json(std::string_view text, const std::string& source);
std::string to_json(const environment& e);
environment environment_from_json(std::string_view line, const std::string& source);

enum class line_kind : std::uint8_t { environment, record };
line_kind kind_of_line(std::string_view line, const std::string& source);

}  // namespace um
