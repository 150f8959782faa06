// JSON of the parts that several documents share; for the files of this folder.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"

namespace um {

template <class T>
json nullable(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json json_of(const machine& m);

json environment_schema();

json json_of(const hint_strategy& s);
hint_strategy hint_strategy_from(const json& value, const json_place& at);

json json_of(const graph& g);
graph graph_from(const json& value, const json_place& at);

// Names of kinds of operators, as in graphs and machine files.
std::vector<std::string> operator_kinds();

// Lower-case letters, digits, '-', '_', '.'; not empty. Such names can stand in keys and file names.
bool is_plain_name(std::string_view name);
// A plain name, with the suffixes of strategies of rules: "NAME#DIGEST", ",without=RULE".
bool is_strategy_name(std::string_view name);

}  // namespace um
