// Hint strategies as JSON: a list of rules, each with one policy.
#include <fmt/format.h>

#include "harness/io/text.hpp"
#include "harness/json/json.hpp"
#include "harness/json/parts.hpp"

namespace um {
namespace {

constexpr std::array all_uses{tensor_use::any, tensor_use::read_only, tensor_use::written,
                              tensor_use::needed_again, tensor_use::passing};
constexpr std::int64_t most_operators = 4096, most_trials = 1000;

// --- which tensors ---

role role_from(const json& value, const place& at) {
  if (value == "workspace") {
    refuse(at, "workspaces always lie in the device arena, no rule can be for them; drop it");
  }
  return as_choice<role>(value, at);
}

std::vector<std::string> patterns_from(fields& f, std::string_view name) {
  std::vector<std::string> all;
  if (!f.has(name)) return all;
  for (const auto& [value, at] : f.list(name)) {
    all.push_back(as_text(*value, at));
    if (all.back().empty()) refuse(at, "an empty pattern fits nothing; drop it, or write \"*\"");
  }
  if (all.empty()) refuse(f.where(name), "the list is empty; leave the field out for every tensor");
  return all;
}

// A kind of operator, or "opaque:LABEL".
std::vector<std::string> kinds_from(fields& f, std::string_view name) {
  std::vector<std::string> kinds, all;
  for (const op_attributes& kind : every_kind()) kinds.emplace_back(kind_of(kind));
  if (!f.has(name)) return all;
  for (const auto& [value, at] : f.list(name)) {
    const std::string given = as_text(*value, at);
    const bool is_label = given.starts_with(opaque_label) && given.size() > opaque_label.size();
    all.push_back(is_label ? given : kinds[as_one_of(*value, at, kinds)]);
  }
  if (all.empty()) refuse(f.where(name), "the list is empty; leave the field out for every operator");
  return all;
}

tensor_choice choice_from(fields& f) {
  tensor_choice which;
  if (f.has("roles")) {
    for (const auto& [value, at] : f.list("roles")) which.roles.push_back(role_from(*value, at));
    if (which.roles.empty())
      refuse(f.where("roles"), "the list is empty; leave the field out for every role");
  }
  if (f.has("use")) which.use = as_choice(f.at("use"), f.where("use"), std::span<const tensor_use>(all_uses));
  which.names = patterns_from(f, "names");
  if (f.has("least_bytes"))
    which.least_bytes = static_cast<byte_count>(f.integer("least_bytes", 1, most_integer));
  which.read_by = kinds_from(f, "read_by");
  which.written_by = kinds_from(f, "written_by");
  return which;
}

void write_choice(json& out, const tensor_choice& which) {
  if (!which.roles.empty()) {
    out["roles"] = json::array();
    for (const role r : which.roles) out["roles"].push_back(to_text(r));
  }
  if (which.use != tensor_use::any) out["use"] = to_text(which.use);
  if (!which.names.empty()) out["names"] = which.names;
  if (which.least_bytes > 0) out["least_bytes"] = which.least_bytes;
  if (!which.read_by.empty()) out["read_by"] = which.read_by;
  if (!which.written_by.empty()) out["written_by"] = which.written_by;
}

// --- policies ---

struct ahead_field {
  const char* name;
  look_ahead unit;
  std::int64_t most;
};
constexpr std::array ahead_fields{ahead_field{"ahead_operators", look_ahead::operators, most_operators},
                                  ahead_field{"ahead_bytes", look_ahead::bytes, most_integer}};

prefetch_rule prefetch_from(fields f) {
  prefetch_rule r;
  r.of = as_choice(f.at("operands"), f.where("operands"),
                   {operand_side::inputs, operand_side::outputs, operand_side::both});
  int given = 0;
  for (const ahead_field& a : ahead_fields) {
    if (!f.has(a.name)) continue;
    r.unit = a.unit;
    r.ahead = f.integer(a.name, 0, a.most);
    ++given;
  }
  if (f.has("ahead")) {
    as_choice(f.at("ahead"), f.where("ahead"), {look_ahead::room});
    r.unit = look_ahead::room;
    r.ahead = 0;
    ++given;
  }
  if (given != 1) refuse(f.where(), "give one of ahead_operators, ahead_bytes and \"ahead\": \"room\"");
  if (f.has("from")) {
    r.from = as_choice(f.at("from"), f.where("from"), {fetch_source::network, fetch_source::recorded});
  }
  f.finish();
  return r;
}

evict_rule evict_from(fields f) {
  evict_rule r;
  r.when = as_choice(f.at("when"), f.where("when"), {evict_when::after_use, evict_when::pressure});
  r.by = as_choice(f.at("by"), f.where("by"), {evict_means::prefetch_to_host, evict_means::twin});
  if (r.when == evict_when::pressure) {
    r.order = as_choice(f.at("order"), f.where("order"),
                        {evict_order::driver, evict_order::not_soon, evict_order::furthest_use});
  }
  r.gap = 0;
  if (r.when == evict_when::after_use || r.order == evict_order::not_soon) {
    r.gap = f.integer("gap_operators", 0, most_operators);
  }
  f.finish();
  return r;
}

discard_rule discard_from(fields f) {
  const discard_rule r{f.boolean("prefetch")};
  f.finish();
  return r;
}

search_rule search_from(fields f) {
  const search_rule r{f.integer("trials", 1, most_trials)};
  f.finish();
  return r;
}

policy policy_from(fields& f, std::string_view verb) {
  if (verb == "residence") {
    return residence_rule{
        as_choice(f.at(verb), f.where(verb), {residence::managed, residence::device, residence::host})};
  }
  if (verb == "advise") {
    return advice_rule{as_choice<advice>(f.at(verb), f.where(verb))};
  }
  if (verb == "prefetch") return prefetch_from(f.object(verb));
  if (verb == "evict") return evict_from(f.object(verb));
  if (verb == "discard") return discard_from(f.object(verb));
  if (verb == "search") return search_from(f.object(verb));
  f.object(verb).finish();
  return cut_rule{};
}

policy only_policy_from(fields& f) {
  constexpr std::array verbs{"residence", "advise", "prefetch", "evict", "discard", "cut", "search"};
  const char* found = nullptr;
  for (const char* verb : verbs) {
    if (!f.has(verb)) continue;
    if (found != nullptr) {
      refuse(f.where(), fmt::format("it decides both {} and {}; write two rules", found, verb));
    }
    found = verb;
  }
  if (found == nullptr) {
    refuse(f.where(), fmt::format("it decides nothing; give one of {}", fmt::join(verbs, ", ")));
  }
  return policy_from(f, found);
}

hint_rule rule_from(const json& value, const place& at) {
  fields f(value, at);
  hint_rule r;
  r.name = f.text("name");
  r.which = choice_from(f);
  r.what = only_policy_from(f);
  f.finish();
  return r;
}

json json_of(const policy& what) {
  return std::visit(overloaded{[](const residence_rule& r) { return json(to_text(r.where)); },
                               [](const advice_rule& r) { return json(to_text(r.hint)); },
                               [](const prefetch_rule& r) {
                                 json out{{"operands", to_text(r.of)}};
                                 if (r.unit == look_ahead::room) {
                                   out["ahead"] = to_text(r.unit);
                                 } else {
                                   out[ahead_fields.at(static_cast<std::size_t>(r.unit)).name] = r.ahead;
                                 }
                                 if (r.from != fetch_source::network) out["from"] = to_text(r.from);
                                 return out;
                               },
                               [](const evict_rule& r) {
                                 json out{{"when", to_text(r.when)}, {"by", to_text(r.by)}};
                                 if (r.when == evict_when::pressure) out["order"] = to_text(r.order);
                                 if (r.when == evict_when::after_use || r.order == evict_order::not_soon) {
                                   out["gap_operators"] = r.gap;
                                 }
                                 return out;
                               },
                               [](const discard_rule& r) { return json{{"prefetch", r.prefetch}}; },
                               [](const cut_rule&) { return json::object(); },
                               [](const search_rule& r) { return json{{"trials", r.trials}}; }},
                    what);
}

}  // namespace

constexpr std::size_t most_rules = 1000;

json json_of(const hint_strategy& s) {
  json rules = json::array();
  for (const hint_rule& r : s.rules) {
    json out{{"name", r.name}};
    write_choice(out, r.which);
    out[std::string(verb_of(r.what))] = json_of(r.what);
    rules.push_back(std::move(out));
  }
  return {{"schema", 1},
          {"kind", "hints"},
          {"name", s.name},
          {"summary", s.summary},
          {"rules", std::move(rules)}};
}

hint_strategy hint_strategy_from(const json& value, const place& at) {
  fields f(value, at);
  f.schema();
  as_one_of(f.at("kind"), f.where("kind"), {"hints"});
  hint_strategy s;
  s.name = f.text("name");
  if (!is_strategy_name(s.name)) refuse(f.where("name"), "use lower-case letters, digits, '-', '_', '.'");
  s.summary = f.text("summary");
  const auto rules = f.list("rules");
  if (rules.size() > most_rules) refuse(f.where("rules"), fmt::format("has more than {} rules", most_rules));
  for (const auto& [rule, where] : rules) s.rules.push_back(rule_from(*rule, where));
  f.finish();
  if (const auto wrong = defect_of(s)) refuse(f.where("rules"), one_line(*wrong));
  return s;
}

std::string to_json(const hint_strategy& s) {
  return dump_indented(json_of(s));
}

hint_strategy hint_strategy_from_json(std::string_view text, const std::string& source) {
  return hint_strategy_from(parse_json(text, source), {source, ""});
}

}  // namespace um
