#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "core/access.hpp"
#include "harness/io/text.hpp"
#include "harness/json/document.hpp"
#include "harness/json/json.hpp"

namespace um {
namespace {

constexpr std::int64_t max_attribute = std::numeric_limits<std::int32_t>::max();
// Limits of the values of an operator, so that no sum over operators overflows.
constexpr std::int64_t longest_ns = 1'000'000'000'000, max_workspace = std::int64_t{1} << 50;

// --- attributes ---

struct number_pair {
  std::int32_t rows = 0, columns = 0;
};
struct pair_format {
  std::int64_t min_value = 0;
  json write(number_pair pair) const { return {pair.rows, pair.columns}; }
  number_pair read(const json& value, const json_place& at) const {
    const auto numbers =
        read_value<std::vector<std::int32_t>>(value, at, plain_format{min_value, max_attribute});
    if (numbers.size() != 2) throw_bad_value(at, "wants two numbers: rows, columns");
    return {numbers[0], numbers[1]};
  }
  json schema() const {
    const json number{{"type", "integer"}, {"minimum", min_value}, {"maximum", max_attribute}};
    return {{"type", "array"}, {"minItems", 2}, {"maxItems", 2}, {"items", number}};
  }
};

// Passes the attributes of an operator (core/operators.hpp) to a visitor of a document.
template <class Visitor>
struct attribute_visitor {
  Visitor& v;
  void pair(const char* name, std::int32_t& rows, std::int32_t& columns, std::int64_t min_value) const {
    number_pair both{rows, columns};
    v.field(name, both, pair_format{min_value});
    rows = both.rows;
    columns = both.columns;
  }
  void integer(const char* name, std::int32_t& value, std::int64_t min_value) const {
    v.field(name, value, plain_format{min_value, max_attribute});
  }
  void integer_or(const char* name, std::int32_t& value, std::int64_t min_value) const {
    v.or_default(name, value, plain_format{min_value, max_attribute});
  }
  void flag(const char* name, bool& value) const { v.or_default(name, value); }
  void number(const char* name, float& value, double min_value, double max_value) const {
    v.field(name, value, number_range_format{min_value, max_value});
  }
};

// Reads a kind with default attributes.
struct kind_format {
  json write(const op_attributes& attributes) const { return kind_of(attributes); }
  op_attributes read(const json& value, const json_place& at) const {
    return every_kind()[index_of_choice(value, at, operator_kinds())];
  }
  json schema() const { return {{"enum", operator_kinds()}}; }
};

struct operand_cuts {
  std::vector<batch_cut> in, out;
};

void describe_attributes(auto& v, auto& a) {
  fields_of(a, attribute_visitor{v});
}
void describe_attributes(auto& v, opaque& a) {
  v.field("label", a.label);
  v.field("flops", a.flops);
  v.field("bytes", a.bytes);
  v.or_default("products", a.products);
  v.or_default("duration_ns", a.duration, plain_format{0, longest_ns});
  v.or_default("workspace_bytes", a.workspace_bytes, plain_format{0, max_workspace});
  std::optional<operand_cuts> cut;
  if (!a.in.empty() || !a.out.empty()) cut = {a.in, a.out};
  v.or_default("cut", cut);
  if (cut) std::tie(a.in, a.out) = std::tie(cut->in, cut->out);
  v.note("label", "what its framework calls it; cpu: the CPU touches its inputs (simulated only)");
  v.note("flops", "a multiplication and an addition are two");
  v.note("bytes", "read and written");
  v.note("products", "flops are products of matrices: at the rate of the precision");
  v.note("duration_ns",
         "with everything resident; null: the longer of flops and bytes at a machine's rates, and a launch");
  v.note("workspace_bytes", "memory that it needs while it runs");
  v.note("cut",
         "how each operand is cut where the operator goes over the batch in parts: read whole, the same "
         "samples, or the sum over samples; null: it cannot be cut");
}

// --- tensors and operators ---

struct dims_format {
  json write(const dims& shape) const { return {shape.n, shape.c, shape.h, shape.w}; }
  dims read(const json& value, const json_place& at) const {
    const auto shape = read_value<std::vector<std::int64_t>>(value, at, plain_format{1});
    if (shape.size() != 4) throw_bad_value(at, "wants four extents");
    return {shape[0], shape[1], shape[2], shape[3]};
  }
  json schema() const {
    return {{"description", "n, c, h, w; the batch first, vectors along c"},
            {"type", "array"},
            {"minItems", 4},
            {"maxItems", 4},
            {"items", plain_format{1}.schema<std::int64_t>()}};
  }
};

using tensor_ids = std::map<std::string, tensor_id, std::less<>>;

// The tensors of a graph by their names. Writing needs no `ids`.
struct tensor_name_format {
  const std::vector<tensor>& all;
  const tensor_ids& ids;
  json write(tensor_id id) const { return all[id].name; }
  tensor_id read(const json& value, const json_place& at) const {
    const std::string name = text_of_value(value, at);
    const auto found = ids.find(name);
    if (found == ids.end()) throw_bad_value(at, fmt::format("no tensor is named \"{}\"", one_line(name)));
    return found->second;
  }
  json schema() const { return {{"type", "string"}}; }
};

struct operator_format {
  tensor_name_format operand;
  json write(op o) const {
    field_writer v;
    describe_operator(v, o);
    return std::move(v.out);
  }
  op read(const json& value, const json_place& at) const {
    field_reader v(value, at);
    op o;
    describe_operator(v, o);
    v.finish();
    return o;
  }
  // A schema with the fields of each kind of operator.
  json schema() const {
    std::vector<std::pair<json, json>>
        by_fields;  // schemas of fields, each with the kinds that have these fields
    for (const op_attributes& what : every_kind()) {
      object_schema_builder v;
      op o;
      o.attributes = what;
      describe_operator(v, o);
      v.properties["kind"] = true;
      auto same = std::ranges::find(by_fields, v.object_schema(), &std::pair<json, json>::first);
      if (same == by_fields.end()) same = by_fields.emplace(same, v.object_schema(), json::array());
      same->second.push_back(kind_of(what));
    }
    json rules = json::array();
    for (const auto& [object, kinds] : by_fields) {
      rules.push_back({{"if", {{"properties", {{"kind", {{"enum", kinds}}}}}}}, {"then", object}});
    }
    return {{"type", "object"},
            {"required", {"kind"}},
            {"properties", {{"kind", kind_format{}.schema()}}},
            {"allOf", std::move(rules)}};
  }
  void describe_operator(auto& v, op& o) const {
    v.field("name", o.name);
    v.field("kind", o.attributes, kind_format{});
    std::visit([&](auto& attributes) { describe_attributes(v, attributes); }, o.attributes.value);
    v.field("in", o.in, operand);
    v.field("out", o.out, operand);
    v.or_default("repeatable", o.is_repeatable);
    v.or_default("alias", o.alias);
    v.note("in", "names of tensors, in the operator's order");
    v.note("repeatable", "false: computing it twice changes the result");
    v.note("alias", "in[input] and out[output] may share memory when nothing reads the input afterwards");
  }
};

// Names of operators must differ, since plans use them.
void check_operator_names(const graph& g, const json_place& ops) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < g.ops.size(); ++i) {
    if (!names.insert(g.ops[i].name).second)
      throw_bad_value(place_of_field(place_of_field(ops, i), "name"),
                      fmt::format("two operators are named \"{}\"", one_line(g.ops[i].name)));
  }
}

void check_work_overflow(const graph& g, const op& o, const json_place& at) {
  try {
    work_of(g, o);
  } catch (const std::overflow_error& error) {
    throw_bad_value(at, one_line(error.what()));
  }
}

// Reads the ids of tensors, whose names must differ.
tensor_ids ids_of(const graph& g, const json_place& tensors) {
  tensor_ids ids;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    const std::string& name = g.tensors[t].name;
    if (!ids.emplace(name, t).second) {
      throw_bad_value(place_of_field(place_of_field(tensors, t), "name"),
                      fmt::format("two tensors are named \"{}\"", one_line(name)));
    }
  }
  return ids;
}

}  // namespace

void describe(auto& v, operand_cuts& c) {
  v.field("in", c.in);
  v.field("out", c.out);
}

void describe(auto& v, may_alias& a) {
  v.field("input", a.input, plain_format{0, max_attribute});
  v.field("output", a.output, plain_format{0, max_attribute});
}

void describe(auto& v, tensor& t) {
  v.field("name", t.name);
  v.field("shape", t.shape, dims_format{});
  v.or_default("type", t.type);
  v.or_default("order", t.order);
  v.or_default("use", t.role);
  v.note("order", "in which elements lie");
  v.note("use",
         "inputs, labels, parameters and states (of an optimizer) are given; gradients of parameters and "
         "outputs must have their value at the end");
}

template <class Visitor>
void describe(Visitor& v, graph& g) {
  v.constant("schema", 1);
  v.constant("kind", "graph");
  v.field("name", g.name);
  v.field("precision", g.arithmetic);
  std::optional<bool> shares;
  if (!g.shares_memory) shares = false;
  v.optional_field("shares_memory", shares);
  g.shares_memory = shares.value_or(true);
  v.field("tensors", g.tensors);
  tensor_ids ids;
  if constexpr (Visitor::is_reader) ids = ids_of(g, v.where("tensors"));
  v.field("ops", g.ops, operator_format{{g.tensors, ids}});
  v.note("precision", "in which products are computed");
  v.note("shares_memory", "false: every tensor keeps its place for all of the iteration (true)");
}

json json_of(const graph& g) {
  graph copy = g;
  return write_object(copy);
}

std::vector<std::string> operator_kinds() {
  std::vector<std::string> names;
  for (const op_attributes& kind : every_kind()) names.emplace_back(kind_of(kind));
  return names;
}

std::string to_json(const graph& g) {
  return dump_indented(json_of(g));
}

graph graph_from(const json& document, const json_place& at) {
  graph g;
  read_object(g, document, at);
  const json_place ops = place_of_field(at, "ops");
  check_operator_names(g, ops);
  if (const auto defect = defect_of(g)) throw_bad_value(at, one_line(*defect));
  for (std::size_t i = 0; i < g.ops.size(); ++i) check_work_overflow(g, g.ops[i], place_of_field(ops, i));
  return g;
}

std::string graph_schema() {
  json all = schema_titled(
      "A network as umbench writes and takes it",
      "Made by `umbench list graph-schema`. Written by `umbench plan --graph` and `umbench export`, "
      "taken by "
      "--network. What a schema cannot say is checked on reading: names are unique, operators come in "
      "execution order, each tensor has one writer, extents fit.");
  all.update(schema_of_object<graph>());
  return dump_indented(all);
}

graph graph_from_json(std::string_view text, const std::string& source) {
  return graph_from(parse_json(text, source), {source, ""});
}

}  // namespace um
