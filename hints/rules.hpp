// A hint strategy as data: named rules, each for some tensors and with one policy. Tables and files
// hold such values; one planner (plan_hints) turns them into memory plans.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/memory_plan.hpp"
#include "core/names.hpp"
#include "core/planner.hpp"

namespace um {

// How a tensor's computes use it within an iteration.
enum class tensor_use : std::uint8_t {
  any,
  read_only,     // no operator writes it
  written,       // some operator does
  needed_again,  // used again after operators that do not touch it, as in the backward pass
  passing,       // used only by operators right after its writer
};
template <>
inline constexpr std::array enum_names<tensor_use>{"any"sv, "read_only"sv, "written"sv, "needed_again"sv,
                                                   "passing"sv};

// Selects tensors that match all of these conditions. A list matches if one of its entries does; an empty
// list matches everything.
struct tensor_choice {
  std::vector<role> roles;  // empty: all
  tensor_use use = tensor_use::any;
  std::vector<std::string> names = {};  // patterns of the shell (fnmatch): "layer1.*.y"
  byte_count least_bytes = 0;
  // Kinds of operators (core/operators.hpp); of opaque ones also "opaque:LABEL", where LABEL is a pattern.
  std::vector<std::string> read_by = {}, written_by = {};
  friend bool operator==(const tensor_choice&, const tensor_choice&) = default;
};

// Prefix of entries of read_by and written_by; the rest of the entry is a pattern of an opaque operator's
// label.
inline constexpr std::string_view opaque_label = "opaque:";

// --- policies ---

// Sets the residence of the tensors, which is `managed` without such a rule.
struct residence_rule {
  residence where = residence::managed;
  friend bool operator==(const residence_rule&, const residence_rule&) = default;
};

// Gives advice on tensors of at least 2 MiB; on smaller ones it would split a block of the driver.
struct advice_rule {
  advice hint = advice::read_mostly;
  friend bool operator==(const advice_rule&, const advice_rule&) = default;
};

enum class operand_side : std::uint8_t { inputs, outputs, both };
template <>
inline constexpr std::array enum_names<operand_side>{"inputs"sv, "outputs"sv, "both"sv};
enum class look_ahead_unit : std::uint8_t {
  operators,  // `ahead` operators before the use
  bytes,      // as early as at most `ahead` bytes are prefetched before the use
  room,       // in the order of use, each as soon as there is room; ignores `ahead`
};
template <>
inline constexpr std::array enum_names<look_ahead_unit>{"operators"sv, "bytes"sv, "room"sv};
enum class fetch_source : std::uint8_t {
  network,   // operands, in the network's order
  recorded,  // operands that faulted in a recorded first iteration without hints
};
template <>
inline constexpr std::array enum_names<fetch_source>{"network"sv, "recorded"sv};
struct prefetch_rule {
  operand_side side = operand_side::both;
  look_ahead_unit unit = look_ahead_unit::operators;
  std::int64_t ahead = 2;  // in units of `unit`
  fetch_source source = fetch_source::network;
  friend bool operator==(const prefetch_rule&, const prefetch_rule&) = default;
};

enum class evict_when : std::uint8_t {
  after_use,  // right after a use, if `gap` or more operators pass before the next
  pressure,   // when an operator needs memory
};
template <>
inline constexpr std::array enum_names<evict_when>{"after_use"sv, "pressure"sv};
enum class evict_order : std::uint8_t {
  driver,        // least recently migrated or populated first, as the driver does
  not_soon,      // the same, but parts that the next `gap` operators need go last
  furthest_use,  // parts whose next use is furthest away first (Belady)
};
template <>
inline constexpr std::array enum_names<evict_order>{"driver"sv, "not_soon"sv, "furthest_use"sv};
enum class evict_means : std::uint8_t {
  prefetch_to_host,  // by the driver (cudaMemPrefetchAsync to the host)
  twin,              // an asynchronous copy to a pinned twin, then a discard
};
template <>
inline constexpr std::array enum_names<evict_means>{"prefetch_to_host"sv, "twin"sv};
struct evict_rule {
  evict_when when = evict_when::pressure;
  evict_order order = evict_order::driver;  // order for evict_when::pressure
  std::int64_t gap = 2;                     // operators between two uses, for after_use and not_soon
  evict_means means = evict_means::prefetch_to_host;
  friend bool operator==(const evict_rule&, const evict_rule&) = default;
};

// Discards values after their last use.
struct discard_rule {
  bool repopulates = true;  // populates discarded tensors before their next write
  friend bool operator==(const discard_rule&, const discard_rule&) = default;
};

// Operators whose operands together exceed the budget run over the batch in slices, together with neighbours
// that share those operands.
struct cut_rule {
  friend bool operator==(const cut_rule&, const cut_rule&) = default;
};

// Uses the numbers of the other rules as a start: the planner simulates at most `trials` plans with
// neighbouring values and takes the fastest one.
struct search_rule {
  std::int64_t trials = 48;  // maximum number of simulated plans
  friend bool operator==(const search_rule&, const search_rule&) = default;
};

// What a rule does with the tensors that it selects.
using hint_policy =
    std::variant<residence_rule, advice_rule, prefetch_rule, evict_rule, discard_rule, cut_rule, search_rule>;

struct hint_rule {
  std::string name;
  tensor_choice tensors;  // not read if the policy is a cut_rule or a search_rule
  hint_policy policy;
  friend bool operator==(const hint_rule&, const hint_rule&) = default;
};

struct hint_strategy {
  std::string name, summary;
  std::vector<hint_rule> rules;
  friend bool operator==(const hint_strategy&, const hint_strategy&) = default;
};

// The reason why the rules are invalid, naming the rule and the remedy; nothing if they are valid.
std::optional<std::string> defect_of(const hint_strategy& s);

// The strategy without one rule, named "NAME,without=RULE". Throws std::invalid_argument, listing the rules,
// if there is no such rule.
hint_strategy without_rule(hint_strategy s, std::string_view rule);

// Knobs of the strategy: `ahead`, if all prefetch rules agree on it; likewise `gap` and `trials`.
std::vector<knob> knobs_of(const hint_strategy& s);
hint_strategy with_knobs(hint_strategy s, const knob_values& knobs);

// Name of the policy as in rule files: "residence", "advise", "prefetch", "evict", "discard", "cut",
// "search".
std::string_view rule_verb(const hint_policy& policy);

}  // namespace um
