#include <fmt/format.h>

#include <algorithm>

#include "core/verify.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"
#include "harness/json/document.hpp"
#include "harness/json/input_files.hpp"

namespace um {
namespace {

using ids_by_name = std::map<std::string, std::uint32_t, std::less<>>;

template <class T>
ids_by_name numbers_by_name(const std::vector<T>& things) {
  ids_by_name ids;
  for (const T& thing : things) ids.emplace(thing.name, static_cast<std::uint32_t>(ids.size()));
  return ids;
}

// A graph, and the numbers of its tensors and operators by name.
struct named_graph {
  const graph& g;
  ids_by_name tensors = numbers_by_name(g.tensors), ops = numbers_by_name(g.ops);
};

// A tensor or an operator, by its name.
struct name_format {
  const named_graph& of;
  bool is_operator = false;
  json write(std::uint32_t id) const { return is_operator ? of.g.ops[id].name : of.g.tensors[id].name; }
  std::uint32_t read(const json& value, const json_place& at) const {
    const std::string name = text_of_value(value, at);
    const ids_by_name& ids = is_operator ? of.ops : of.tensors;
    if (const auto found = ids.find(name); found != ids.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [each, id] : ids) known.push_back(each);
    const std::string near = nearest_name(name, known);
    throw_bad_value(at,
                    fmt::format("the network has no {} named \"{}\"{}", is_operator ? "operator" : "tensor",
                                one_line(name), near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  json schema() const { return {{"type", "string"}}; }
};

struct range_format {
  json write(const interval& i) const { return {i.begin, i.end}; }
  interval read(const json& value, const json_place& at) const {
    std::vector<std::int64_t> ends;
    for (const auto& [end, where] : items_of_value(value, at)) ends.push_back(integer_of_value(*end, where));
    if (ends.size() != 2 || ends[0] >= ends[1])
      throw_bad_value(at, "wants a range [begin, end) such as [0, 8]");
    return {ends[0], ends[1]};
  }
  json schema() const {
    return {{"description", "[begin, end)"},
            {"type", "array"},
            {"minItems", 2},
            {"maxItems", 2},
            {"items", plain_format{}.schema<std::int64_t>()}};
  }
};

void describe_action(auto& v, advise& a, const named_graph& of) {
  v.field("what", a.tensor, name_format{of});
  v.field("hint", a.hint);
}
void describe_action(auto& v, auto& m, const named_graph& of) {
  v.field("what", m.tensor, name_format{of});
  v.optional_field("part", m.part);
}
void describe_action(auto& v, compute& c, const named_graph& of) {
  v.field("what", c.op, name_format{of, true});
  v.optional_field("part", c.part);
  std::optional<byte_count> workspace;
  if (c.workspace != as_profiled) workspace = c.workspace;
  v.optional_field("workspace_bytes", workspace);
  c.workspace = workspace.value_or(as_profiled);
  v.optional_field("again", c.cheap_recompute);
}

// One action of each kind.
const std::array<action, verbs.size()>& action_kinds() {
  static const std::array<action, verbs.size()> kinds{advise{}, prefetch{}, evict{}, discard{}, compute{}};
  return kinds;
}

struct action_format {
  const named_graph& of;
  json write(action a) const {
    field_writer v;
    v.constant("do", verb_of(a));
    std::visit([&](auto& one) { describe_action(v, one, of); }, a);
    return std::move(v.out);
  }
  action read(const json& value, const json_place& at) const {
    field_reader v(value, at);
    std::string verb;
    v.field("do", verb);
    action a =
        action_kinds().at(index_of_choice(verb, place_of_field(at, "do"), {verbs.begin(), verbs.end()}));
    std::visit([&](auto& one) { describe_action(v, one, of); }, a);
    v.finish();
    return a;
  }
  json schema() const {
    json kinds = json::array();
    for (action a : action_kinds()) {
      object_schema_builder v;
      v.constant("do", verb_of(a));
      std::visit([&](auto& one) { describe_action(v, one, of); }, a);
      kinds.push_back(v.object_schema());
    }
    return {{"oneOf", std::move(kinds)}};
  }
};

// The residence of every tensor of a graph, by name.
struct residences_by_name {
  const graph* of = nullptr;
  std::vector<residence> home = {};
};
struct residences_format {
  const graph* of;
  json write(residences_by_name homes) const { return write_object(homes); }
  residences_by_name read(const json& value, const json_place& at) const {
    residences_by_name homes{of, std::vector<residence>(of->tensors.size())};
    read_object(homes, value, at);
    return homes;
  }
  json schema() const { return schema_of<std::map<std::string, residence>>(plain_format{}); }
};

// A network of the catalogue is written as its knobs, a network from a file as its graph.
struct built_network_format {
  json write(const built_network& n) const {
    if (n.spec.imported_graph) return {{"graph", json_of(*n.spec.imported_graph)}};
    network_spec spec = n.spec;
    field_writer v;
    describe_network(v, spec, "name", "knobs");
    return std::move(v.out);
  }
  built_network read(const json& value, const json_place& at) const {
    network_spec spec;
    if (value.is_object() && value.contains("graph")) {
      fields f(value, at);
      spec = spec_of_file(graph_from(f.at("graph"), f.where("graph")));
      f.finish();
    } else {
      field_reader v(value, at);
      describe_network(v, spec, "name", "knobs");
      v.finish();
    }
    try {
      return complete_and_build(std::move(spec));
    } catch (const input_error& error) {
      throw_bad_value(at, error.what());
    }
  }
  json schema() const {
    network_spec any;
    object_schema_builder v, of_graph;
    describe_network(v, any, "name", "knobs");
    of_graph.properties["graph"] = {{"$ref", "graph.schema.json"}};
    of_graph.required.push_back("graph");
    return {{"oneOf", {of_graph.object_schema(), v.object_schema()}}};
  }
};

struct packer_format {
  json write(const packer& p) const { return p.name; }
  packer read(const json& value, const json_place& at) const {
    return choice_of_value(value, at, all_packers());
  }
  json schema() const {
    json names = json::array();
    for (const packer& p : all_packers()) names.push_back(p.name);
    return {{"enum", names}};
  }
};

}  // namespace

void describe(auto& v, box& b) {
  for (const auto& [along, member] : {std::pair{"batch", &box::batch},
                                      {"channel", &box::channel},
                                      {"row", &box::row},
                                      {"reduction", &box::reduction}}) {
    v.optional_field(along, b.*member, range_format{});
  }
}

void describe(auto& v, residences_by_name& homes) {
  for (std::size_t t = 0; t < homes.home.size(); ++t) {
    v.field(homes.of->tensors[t].name.c_str(), homes.home[t]);
  }
}

void describe(auto& v, plan_file& file) {
  v.constant("schema", 1);
  v.constant("kind", "plan");
  v.field("network", file.network, built_network_format{});
  v.field("strategy", file.strategy, strategy_name);
  v.field("strategy_knobs", file.strategy_knobs, any_integer);
  v.field("ratio", file.ratio, number_range_format{min_ratio, max_ratio});
  v.field("footprint_bytes", file.footprint);
  v.field("budget_bytes", file.budget, plain_format{1});
  v.field("mode", file.mode);
  v.field("placed_by", file.packing_algorithm, packer_format{});
  static const graph none;  // the schema does not depend on a network
  const named_graph of{file.network.network ? *file.network.network : none};
  residences_by_name homes{&of.g, file.plan.residences};
  v.field("homes", homes, residences_format{&of.g});
  file.plan.residences = homes.home;
  v.field("actions", file.plan.actions, action_format{of});
  const auto count = static_cast<std::int64_t>(file.plan.actions.size());
  v.optional_field("joins", file.plan.joins, plain_format{0, of.g.ops.empty() ? max_integer : count});
  v.note("strategy", "as a record names it");
  v.note("ratio", "footprint / budget, if it was asked for");
  v.note("footprint_bytes", "where it was planned");
  v.note("homes", "of every tensor");
  v.note("actions", "in program order");
  v.note("joins", "before which of the actions, by index, all lanes wait for each other");
}

namespace {

// Throws unless ratio, footprint and budget agree, so that records have the ratio at which they ran. The
// footprint is that of the network and, on a GPU, of its workspaces.
void check_ratio_and_budget(const plan_file& file, const json_place& at) {
  const graph& g = *file.network.network;
  const byte_count packed = footprint_of(g, profile(g.ops.size())).total;
  const byte_count smallest =
      packed - packed / 16;  // tolerance, since another version may pack slightly better
  if (file.footprint < smallest) {
    throw_bad_value(place_of_field(at, "footprint_bytes"),
                    fmt::format("is less than the {} that the network's tensors take", smallest));
  }
  if (!file.ratio) return;
  const auto budget =
      std::max<byte_count>(1, static_cast<byte_count>(static_cast<double>(file.footprint) / *file.ratio));
  if (file.budget == budget) return;
  throw_bad_value(place_of_field(at, "budget_bytes"),
                  fmt::format("{} is not what ratio {} leaves of a footprint of {} bytes: {}", file.budget,
                              *file.ratio, file.footprint, budget));
}

json write_plan(plan_file file) {
  return write_object(file);
}

}  // namespace

plan_file plan_from_json(std::string_view text, const std::string& source) {
  const json_place at{source, ""};
  plan_file file;
  read_object(file, parse_json(text, source), at);
  check_ratio_and_budget(file, at);
  if (const auto defect = defect_of(*file.network.network, file.plan)) {
    throw_bad_value(at, fmt::format("the plan is wrong: {}", one_line(*defect)));
  }
  return file;
}

std::string plan_schema() {
  json all = schema_titled(
      "A plan as umbench writes it and runs it",
      "Made by `umbench list plan-schema`. Written by `umbench plan -o`, taken by `run --plan`. What a "
      "schema "
      "cannot say is checked on reading: tensors and operators are the network's, every tensor has a home, "
      "ratio, footprint and budget agree, and the plan is proven.");
  all.update(schema_of_object<plan_file>());
  return dump_indented(all);
}

std::string digest_of_plan(const plan_file& file) {
  json all = write_plan(file);
  for (const char* said_by_the_key :
       {"network", "strategy", "strategy_knobs", "ratio", "mode", "footprint_bytes"}) {
    all.erase(said_by_the_key);
  }
  return digest_text(dump_line(all), 6);
}

std::string to_json(const plan_file& file) {
  return dump_indented(write_plan(file));
}

}  // namespace um
