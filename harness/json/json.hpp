// Graphs, plans, machines, sweeps, experiments and records as JSON text. Every reader is strict:
// an unknown or missing field, a wrong type, a number that is negative or too large gives an
// input_error that names `source`, the field and the mend. What is written reads back equal.
#pragma once

#include <map>
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
// 16 hexadecimal digits that depend on every figure, and not on what the machine is called or where they come
// from.
std::string figures_digest(const machine& of);
machine machine_from_json(std::string_view text, const std::string& source);
// With the measured figures, by name in the file ("uvm.fault_ns"), and as bounds of times and rates the
// quartiles of their samples; all others are noted as estimated and keep their bounds. Inferred ones are
// noted, too, and have either width.
machine with_figures(machine base, const measure::figures& found);
// A machine file that also keeps the spread of the samples of each figure.
std::string to_json(const machine& of, const measure::calibration& from);
std::string to_json(const measure::readings& all);

// Tensors and operators are written by name, so both directions build the network.
std::string to_json(const plan_file& file);
// Six hexadecimal digits that depend on where its tensors lie, its actions, packer and budget.
std::string plan_digest(const plan_file& file);
plan_file plan_from_json(std::string_view text, const std::string& source);
// The JSON Schema, results/plan.schema.json.
std::string plan_schema();

// A strategy of rules: what a user writes, and what a record keeps.
std::string to_json(const hint_strategy& s);
hint_strategy hint_strategy_from_json(std::string_view text, const std::string& source);
// The JSON Schema, results/rules.schema.json.
std::string rules_schema();

// The table of strategies, for scripts (docs/records.md).
std::string to_json(std::span<const strategy> rows);
// What `umbench advise --json` prints; at least one way was tried.
std::string to_json(const advice_given& a);

std::vector<known_figure> known_figures_from_json(std::string_view text, const std::string& source);

sweep_spec sweep_from_json(std::string_view text, const std::string& source);
// The JSON Schema, results/sweep.schema.json.
std::string sweep_schema();

// Records and environments are single lines without the line break.
std::string to_json(const record& r);
record record_from_json(std::string_view line, const std::string& source);
// The JSON Schema of both, results/record.schema.json.
std::string record_schema();
// What the process that was asked for a GPU answers.
std::string to_json(const gpu_facts& gpu);
gpu_facts gpu_from_json(std::string_view text, const std::string& source);
std::string to_json(const environment& e);
environment environment_from_json(std::string_view line, const std::string& source);

enum class line_kind : std::uint8_t { environment, record };
line_kind kind_of_line(std::string_view line, const std::string& source);

}  // namespace um
