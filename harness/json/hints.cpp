// Hint strategies as JSON: a list of rules, each with one policy.
#include <fmt/format.h>

#include "harness/io/text.hpp"
#include "harness/json/document.hpp"
#include "harness/json/json.hpp"

namespace um {
namespace {

constexpr std::int64_t max_operators = 4096, max_trials = 1000;
constexpr std::size_t max_rules = 1000;

// --- the tensors of a rule ---

struct role_format {
  json write(role use) const { return to_text(use); }
  role read(const json& value, const json_place& at) const {
    if (value == "workspace") {
      throw_bad_value(at, "workspaces always lie in the device arena, no rule can be for them; drop it");
    }
    return choice_of_value<role>(value, at);
  }
  json schema() const {
    json names = plain_format{}.schema<role>();
    std::erase(names["enum"].get_ref<json::array_t&>(), "workspace");
    return names;
  }
};

constexpr checked_text_format pattern_text{nullptr, [](std::string_view pattern) { return !pattern.empty(); },
                                           "an empty pattern fits nothing; drop it, or write \"*\"", false};

// A kind of operator, or "opaque:LABEL".
struct operator_kind_format {
  json write(const std::string& kind) const { return kind; }
  std::string read(const json& value, const json_place& at) const {
    std::string given = text_of_value(value, at);
    if (!given.starts_with(opaque_label) || given.size() == opaque_label.size())
      index_of_choice(value, at, operator_kinds());
    return given;
  }
  json schema() const {
    return {{"anyOf", {{{"enum", operator_kinds()}}, {{"type", "string"}, {"pattern", "^opaque:."}}}}};
  }
};

constexpr checked_text_format rule_name{"^[a-z0-9_]+$"};  // the same names that defect_of() accepts

void describe_choice(auto& v, tensor_choice& which) {
  v.nonempty_list("roles", which.roles, role_format{});
  v.optional_field("use", which.use);
  v.nonempty_list("names", which.names, pattern_text);
  v.optional_field("least_bytes", which.least_bytes, plain_format{1});
  v.nonempty_list("read_by", which.read_by, operator_kind_format{});
  v.nonempty_list("written_by", which.written_by, operator_kind_format{});
  v.note("roles", "left out: every role");
  v.note("names", "patterns as in a shell, of which one fits");
}

}  // namespace

// --- policies ---

template <class Visitor>
void describe(Visitor& v, prefetch_rule& r) {
  v.field("operands", r.side);
  std::optional<std::int64_t> operators, bytes;
  std::optional<look_ahead_unit> room;
  if constexpr (!Visitor::is_reader) {
    if (r.unit == look_ahead_unit::operators) operators = r.ahead;
    if (r.unit == look_ahead_unit::bytes) bytes = r.ahead;
    if (r.unit == look_ahead_unit::room) room = r.unit;
  }
  v.optional_field("ahead_operators", operators, plain_format{0, max_operators});
  v.optional_field("ahead_bytes", bytes);
  v.optional_field("ahead", room, choice_format{look_ahead_unit::room});
  v.require((operators ? 1 : 0) + (bytes ? 1 : 0) + (room ? 1 : 0) == 1,
            "give one of ahead_operators, ahead_bytes and \"ahead\": \"room\"");
  r.unit = operators ? look_ahead_unit::operators : bytes ? look_ahead_unit::bytes : look_ahead_unit::room;
  r.ahead = operators.value_or(bytes.value_or(0));
  v.optional_field("from", r.source);
  v.rule(R"({"oneOf": [{"required": ["ahead_operators"]}, {"required": ["ahead_bytes"]},
                       {"required": ["ahead"]}]})");
}

template <class Visitor>
void describe(Visitor& v, evict_rule& r) {
  v.field("when", r.when);
  v.field("by", r.means);
  constexpr plain_format gap{0, max_operators};
  if constexpr (Visitor::makes_schema) {
    v.optional_field("order", r.order);
    v.optional_field("gap_operators", r.gap, gap);
    v.rule(R"({"oneOf": [
      {"properties": {"when": {"const": "after_use"}, "order": false}, "required": ["gap_operators"]},
      {"properties": {"when": {"const": "pressure"}, "order": {"const": "not_soon"}},
       "required": ["order", "gap_operators"]},
      {"properties": {"when": {"const": "pressure"}, "order": {"not": {"const": "not_soon"}}, "gap_operators": false},
       "required": ["order"]}]})");
    return;
  }
  if (r.when == evict_when::pressure) v.field("order", r.order);
  if (r.when == evict_when::after_use || r.order == evict_order::not_soon) {
    v.field("gap_operators", r.gap, gap);
  } else {
    r.gap = 0;
  }
}

void describe(auto& v, discard_rule& r) {
  v.field("prefetch", r.repopulates);
}
void describe(auto&, cut_rule&) {}
void describe(auto& v, search_rule& r) {
  v.field("trials", r.trials, plain_format{1, max_trials});
}

namespace {

void describe_policy(auto& v, hint_policy& policy) {
  const std::string verb(rule_verb(policy));
  const auto field = [&](auto& rule) { v.field(verb.c_str(), rule); };
  std::visit(overloaded{[&](residence_rule& r) {
                          v.field(verb.c_str(), r.where,
                                  choice_format{residence::managed, residence::device, residence::host});
                        },
                        [&](advice_rule& r) { v.field(verb.c_str(), r.hint); }, field},
             policy);
}

// One policy of each kind, in the order of the variant.
template <class... Rules>
std::vector<hint_policy> one_policy_of_each_kind(std::variant<Rules...>*) {
  return {Rules{}...};
}

// Exactly one of these fields is present in a rule.
void describe_policies(object_schema_builder& v) {
  json one = json::array();
  for (hint_policy kind : one_policy_of_each_kind(static_cast<hint_policy*>(nullptr))) {
    object_schema_builder alone;
    describe_policy(alone, kind);
    v.properties.update(alone.properties);
    one.push_back({{"required", alone.required}});
  }
  v.rules["oneOf"] = std::move(one);
}

// A default policy of the kind whose field is present.
hint_policy policy_of_given_kind(field_reader& v) {
  const std::vector<hint_policy> all = one_policy_of_each_kind(static_cast<hint_policy*>(nullptr));
  const hint_policy* found = nullptr;
  std::vector<std::string_view> verbs;
  for (const hint_policy& kind : all) {
    verbs.push_back(rule_verb(kind));
    if (!v.has(verbs.back())) continue;
    if (found != nullptr) {
      v.refuse_here(
          fmt::format("it decides both {} and {}; write two rules", rule_verb(*found), verbs.back()));
    }
    found = &kind;
  }
  if (found == nullptr) {
    v.refuse_here(fmt::format("it decides nothing; give one of {}", fmt::join(verbs, ", ")));
  }
  return *found;
}

}  // namespace

template <class Visitor>
void describe(Visitor& v, hint_rule& r) {
  v.field("name", r.name, rule_name);
  describe_choice(v, r.tensors);
  if constexpr (Visitor::makes_schema) return describe_policies(v);
  if constexpr (Visitor::is_reader) r.policy = policy_of_given_kind(v);
  describe_policy(v, r.policy);
}

void describe(auto& v, hint_strategy& s) {
  v.constant("schema", 1);
  v.constant("kind", "hints");
  v.field("name", s.name, strategy_name);
  v.field("summary", s.summary);
  v.field("rules", s.rules);
}

std::string rules_schema() {
  json all = schema_titled(
      "A hint strategy as a list of rules",
      "Made by `umbench list rules-schema`. Taken by --strategy FILE.json (docs/hints.md). What a schema "
      "cannot say is checked on reading: names of rules are unique, one rule at most evicts under pressure, "
      "a "
      "search has something to search.");
  all.update(schema_of_object<hint_strategy>());
  all["properties"]["rules"]["maxItems"] = max_rules;
  return dump_indented(all);
}

json json_of(const hint_strategy& s) {
  hint_strategy copy = s;
  return write_object(copy);
}

hint_strategy hint_strategy_from(const json& value, const json_place& at) {
  hint_strategy s;
  read_object(s, value, at);
  const json_place rules = place_of_field(at, "rules");
  if (s.rules.size() > max_rules) throw_bad_value(rules, fmt::format("has more than {} rules", max_rules));
  if (const auto wrong = defect_of(s)) throw_bad_value(rules, one_line(*wrong));
  return s;
}

std::string to_json(const hint_strategy& s) {
  return dump_indented(json_of(s));
}

hint_strategy hint_strategy_from_json(std::string_view text, const std::string& source) {
  return hint_strategy_from(parse_json(text, source), {source, ""});
}

}  // namespace um
