#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "backends/digest.hpp"
#include "core/lower.hpp"
#include "core/verify.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"
#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"
#include "harness/json/network_file.hpp"
#include "harness/json/parts.hpp"

namespace um {
namespace {

using ids_by_name = std::map<std::string, std::uint32_t, std::less<>>;

template <class T>
ids_by_name ids_of(const std::vector<T>& things) {
  ids_by_name ids;
  for (const T& thing : things) ids.emplace(thing.name, static_cast<std::uint32_t>(ids.size()));
  return ids;
}

std::uint32_t id_of(fields& f, const ids_by_name& ids, std::string_view kind) {
  const std::string name = f.text("what");
  const auto found = ids.find(name);
  if (found != ids.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [each, id] : ids) known.push_back(each);
  const std::string near = nearest(name, known);
  refuse(f.where("what"), fmt::format("the network has no {} named \"{}\"{}", kind, one_line(name),
                                      near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

// --- parts; the whole, and all of an axis, are written as nothing ---

void write_part(json& out, const box& b) {
  if (is_whole(b)) return;
  json part = json::object();
  const auto write = [&](axis along, const interval& i) {
    if (!is_all(i)) part[std::string(to_text(along))] = {i.begin, i.end};
  };
  write(axis::batch, b.batch);
  write(axis::channel, b.channel);
  write(axis::row, b.row);
  write(axis::reduction, b.reduction);
  out["part"] = std::move(part);
}

interval interval_from(fields& f, axis along) {
  const std::string name(to_text(along));
  if (!f.has(name)) return {};
  const auto ends = f.list(name);
  const auto end = [&](std::size_t i) { return as_integer(*ends[i].first, ends[i].second, 0, most_integer); };
  if (ends.size() != 2 || end(0) >= end(1))
    refuse(f.where(name), "wants a range [begin, end) such as [0, 8]");
  return {end(0), end(1)};
}

box part_from(fields& f) {
  if (!f.has("part")) return {};
  fields p = f.object("part");
  const box b{interval_from(p, axis::batch), interval_from(p, axis::channel), interval_from(p, axis::row),
              interval_from(p, axis::reduction)};
  p.finish();
  return b;
}

// --- actions ---

json json_of(const graph& g, const action& a) {
  const auto moved = [&](const char* verb, const auto& m) {
    json out{{"do", verb}, {"what", g.tensors[m.what].name}};
    write_part(out, m.part);
    return out;
  };
  return std::visit(
      overloaded{[&](const advise& d) {
                   return json{{"do", "advise"}, {"what", g.tensors[d.what].name}, {"hint", to_text(d.hint)}};
                 },
                 [&](const prefetch& p) { return moved("prefetch", p); },
                 [&](const evict& e) { return moved("evict", e); },
                 [&](const discard& d) { return moved("discard", d); },
                 [&](const compute& c) {
                   json out{{"do", "compute"}, {"what", g.ops[c.what].name}};
                   write_part(out, c.part);
                   if (c.workspace != as_profiled) out["workspace_bytes"] = c.workspace;
                   if (c.again) out["again"] = true;
                   return out;
                 }},
      a);
}

// A graph, and its names.
struct named_graph {
  const graph& g;
  ids_by_name tensors = ids_of(g.tensors), ops = ids_of(g.ops);
};

action compute_from(fields& f, const named_graph& of) {
  compute c;
  c.what = id_of(f, of.ops, "operator");
  c.part = part_from(f);
  if (f.has("workspace_bytes")) c.workspace = static_cast<byte_count>(f.integer("workspace_bytes", 0));
  c.again = f.has("again") && f.boolean("again");
  return c;
}

action action_of_verb(fields& f, const named_graph& of) {
  const std::size_t verb =
      as_one_of(f.at("do"), f.where("do"), {"advise", "prefetch", "evict", "discard", "compute"});
  if (verb == 4) return compute_from(f, of);
  const tensor_id what = id_of(f, of.tensors, "tensor");
  if (verb == 0) {
    return advise{what, as_choice<advice>(f.at("hint"), f.where("hint"))};
  }
  const box part = part_from(f);
  if (verb == 1) return prefetch{what, part};
  if (verb == 2) return evict{what, part};
  return discard{what, part};
}

action action_from(const json& value, const place& at, const named_graph& of) {
  fields f(value, at);
  action a = action_of_verb(f, of);
  f.finish();
  return a;
}

// --- the document ---

void read_homes(fields& f, const graph& g, memory_plan& plan) {
  fields homes = f.object("homes");
  for (const tensor& t : g.tensors) {
    plan.home.push_back(as_choice<residence>(homes.at(t.name), homes.where(t.name)));
  }
  homes.finish();
}

void read_actions(fields& f, const graph& g, memory_plan& plan) {
  const named_graph names{g};
  for (const auto& [value, at] : f.list("actions")) {
    plan.actions.push_back(action_from(*value, at, names));
  }
}

void read_joins(fields& f, memory_plan& plan) {
  if (!f.has("joins")) return;
  const auto most = static_cast<std::int64_t>(plan.actions.size());
  for (const auto& [value, at] : f.list("joins"))
    plan.joins.push_back(static_cast<std::uint32_t>(as_integer(*value, at, 0, most)));
}

void read_purpose(fields& f, plan_file& file) {
  file.strategy = f.text("strategy");
  if (!is_strategy_name(file.strategy)) refuse(f.where("strategy"), "use lower-case letters, digits and '_'");
  file.strategy_knobs = knobs_from(f.at("strategy_knobs"), f.where("strategy_knobs"));
  if (!f.is_null("ratio")) file.ratio = f.number("ratio", least_ratio, most_ratio);
  file.footprint = f.count("footprint_bytes");
  file.budget = static_cast<byte_count>(f.integer("budget_bytes", 1));
  file.mode = as_choice<run_mode>(f.at("mode"), f.where("mode"));
  file.placed_by = as_choice(f.at("placed_by"), f.where("placed_by"), all_packers());
}

// Ratio, footprint and budget must agree, so that no record is filed under a ratio that it did not run at.
// The footprint is the network's and, on a GPU, its workspaces'.
void check_amounts(const plan_file& file, const place& at) {
  const graph& g = *file.network.built;
  const byte_count packed = footprint_of(g, profile(g.ops.size())).total;
  const byte_count least = packed - packed / 16;  // another version may have packed it better
  if (file.footprint < least) {
    refuse(inside(at, "footprint_bytes"),
           fmt::format("is less than the {} that the network's tensors take", least));
  }
  if (!file.ratio) return;
  const auto budget =
      std::max<byte_count>(1, static_cast<byte_count>(static_cast<double>(file.footprint) / *file.ratio));
  if (file.budget == budget) return;
  refuse(inside(at, "budget_bytes"),
         fmt::format("{} is not what ratio {} leaves of a footprint of {} bytes: {}", file.budget,
                     *file.ratio, file.footprint, budget));
}

json network_json(const network_spec& n) {
  if (n.given) return {{"graph", json_of(*n.given)}};
  return {{"name", n.name},
          {"batch", n.batch},
          {"pass", to_text(n.mode)},
          {"sgd", n.sgd},
          {"fusion", to_text(n.joined)},
          {"precision", to_text(n.arithmetic)},
          {"memory_order", to_text(n.order.value_or(standard_order(n.arithmetic)))},
          {"knobs", knobs_json(n.knobs)}};
}

// A network from a file carries its graph.
network_spec spec_from(const json& value, const place& at) {
  fields f(value, at);
  network_spec n;
  if (f.has("graph")) {
    n = spec_of_file(graph_from(f.at("graph"), f.where("graph")));
    f.finish();
    return n;
  }
  n.name = f.text("name");
  n.batch = f.integer("batch", 1);
  n.mode = pass_from(f.at("pass"), f.where("pass"));
  n.sgd = f.boolean("sgd");
  n.joined = fusion_from(f.at("fusion"), f.where("fusion"));
  n.arithmetic = precision_from(f.at("precision"), f.where("precision"));
  n.order = memory_order_from(f.at("memory_order"), f.where("memory_order"));
  n.knobs = knobs_from(f.at("knobs"), f.where("knobs"));
  f.finish();
  return n;
}

built_network network_from(const json& value, const place& at) {
  network_spec n = spec_from(value, at);
  try {
    return built(std::move(n));
  } catch (const input_error& error) {
    refuse(at, error.what());
  }
}

json json_of(const plan_file& file) {
  const graph& g = *file.network.built;
  json homes = json::object(), actions = json::array();
  for (std::size_t t = 0; t < g.tensors.size(); ++t) homes[g.tensors[t].name] = to_text(file.plan.home[t]);
  for (const action& a : file.plan.actions) actions.push_back(json_of(g, a));
  json out{{"schema", 1},
           {"kind", "plan"},
           {"network", network_json(file.network.spec)},
           {"strategy", file.strategy},
           {"strategy_knobs", knobs_json(file.strategy_knobs)},
           {"ratio", or_null(file.ratio)},
           {"footprint_bytes", file.footprint},
           {"budget_bytes", file.budget},
           {"mode", to_text(file.mode)},
           {"placed_by", file.placed_by.name},
           {"homes", std::move(homes)},
           {"actions", std::move(actions)}};
  if (!file.plan.joins.empty()) out["joins"] = file.plan.joins;
  return out;
}

}  // namespace

plan_file plan_from_json(std::string_view text, const std::string& source) {
  const json document = parse_json(text, source);
  const place at{source, ""};
  fields f(document, at);
  plan_file file;
  f.schema();
  as_one_of(f.at("kind"), f.where("kind"), {"plan"});
  file.network = network_from(f.at("network"), f.where("network"));
  read_purpose(f, file);
  const graph& g = *file.network.built;
  read_homes(f, g, file.plan);
  read_actions(f, g, file.plan);
  read_joins(f, file.plan);
  f.finish();
  check_amounts(file, at);
  if (const auto defect = defect_of(g, file.plan)) {
    refuse(at, fmt::format("the plan is wrong: {}", one_line(*defect)));
  }
  return file;
}

std::string plan_digest(const plan_file& file) {
  json all = json_of(file);
  for (const char* said_by_the_key :
       {"network", "strategy", "strategy_knobs", "ratio", "mode", "footprint_bytes"}) {
    all.erase(said_by_the_key);
  }
  const std::string text = dump_line(all);
  digest sum;
  sum.add(std::as_bytes(std::span(text)));
  return fmt::format("{:06x}", sum.value() & 0xffffff);
}

std::string to_json(const plan_file& file) {
  return dump_indented(json_of(file));
}

}  // namespace um
