#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <tuple>

#include "core/access.hpp"
#include "harness/io/text.hpp"
#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"
#include "harness/json/parts.hpp"

namespace um {
namespace {

constexpr std::int64_t most_attribute = std::numeric_limits<std::int32_t>::max();
// Of one operator: no clock and no sum of such overflows.
constexpr std::int64_t longest_ns = 1'000'000'000'000, most_workspace = std::int64_t{1} << 50;

std::int32_t small(fields& f, std::string_view name, std::int64_t least) {
  return static_cast<std::int32_t>(f.integer(name, least, most_attribute));
}

// Fields that files need not have mean what they mostly are.
bool boolean_or(fields& f, std::string_view name, bool usual) {
  return f.has(name) ? f.boolean(name) : usual;
}

// --- attributes ---

std::pair<std::int32_t, std::int32_t> pair_from(fields& f, std::string_view name, std::int64_t least) {
  const auto values = f.list(name);
  if (values.size() != 2) refuse(f.where(name), "wants two numbers: rows, columns");
  const auto number = [&](std::size_t i) {
    return static_cast<std::int32_t>(as_integer(*values[i].first, values[i].second, least, most_attribute));
  };
  return {number(0), number(1)};
}

// Visitors of the attributes (core/operators.hpp).
struct attribute_writer {
  json& out;
  void pair(const char* name, std::int32_t rows, std::int32_t columns, std::int64_t) const {
    out[name] = {rows, columns};
  }
  void integer(const char* name, std::int32_t value, std::int64_t) const { out[name] = value; }
  void integer_or(const char* name, std::int32_t value, std::int64_t) const { out[name] = value; }
  void flag(const char* name, bool value) const { out[name] = value; }
  void number(const char* name, float value, double, double) const { out[name] = value; }
};
struct attribute_reader {
  fields& f;
  void pair(const char* name, std::int32_t& rows, std::int32_t& columns, std::int64_t least) const {
    std::tie(rows, columns) = pair_from(f, name, least);
  }
  void integer(const char* name, std::int32_t& value, std::int64_t least) const {
    value = small(f, name, least);
  }
  void integer_or(const char* name, std::int32_t& value, std::int64_t least) const {
    value = f.has(name) ? small(f, name, least) : static_cast<std::int32_t>(least);
  }
  void flag(const char* name, bool& value) const { value = boolean_or(f, name, false); }
  void number(const char* name, float& value, double least, double most) const {
    value = static_cast<float>(f.number(name, least, most));
  }
};

json json_of(const std::vector<batch_cut>& cuts) {
  json list = json::array();
  for (const batch_cut cut : cuts) list.push_back(to_text(cut));
  return list;
}
void write(json& out, const opaque& a) {
  out["label"] = a.label;
  out["flops"] = a.flops;
  out["bytes"] = a.bytes;
  out["products"] = a.products;
  out["duration_ns"] = or_null(a.duration);
  out["workspace_bytes"] = a.workspace_bytes;
  const bool is_cut = !a.in.empty() || !a.out.empty();
  out["cut"] = is_cut ? json{{"in", json_of(a.in)}, {"out", json_of(a.out)}} : json(nullptr);
}
void read(fields& f, opaque& a) {
  a.label = f.text("label");
  a.flops = f.count("flops");
  a.bytes = f.count("bytes");
  a.products = boolean_or(f, "products", false);
  if (f.has("duration_ns") && !f.is_null("duration_ns")) a.duration = f.integer("duration_ns", 0, longest_ns);
  if (f.has("workspace_bytes"))
    a.workspace_bytes = static_cast<byte_count>(f.integer("workspace_bytes", 0, most_workspace));
  if (!f.has("cut") || f.is_null("cut")) return;
  fields cut = f.object("cut");
  const auto cuts = [&](const char* side) {
    std::vector<batch_cut> all;
    for (const auto& [value, at] : cut.list(side)) all.push_back(as_choice<batch_cut>(*value, at));
    return all;
  };
  a.in = cuts("in");
  a.out = cuts("out");
  cut.finish();
}

template <class Kind>
void write(json& out, const Kind& a) {
  fields_of(a, attribute_writer{out});
}
template <class Kind>
void read(fields& f, Kind& a) {
  fields_of(a, attribute_reader{f});
}

op_attributes attributes_from(fields& f) {
  op_attributes what = every_kind()[as_one_of(f.at("kind"), f.where("kind"), operator_kinds())];
  std::visit([&](auto& attributes) { read(f, attributes); }, what);
  return what;
}

// --- tensors and operators ---

json json_of(const tensor& t) {
  return {{"name", t.name},
          {"shape", {t.shape.n, t.shape.c, t.shape.h, t.shape.w}},
          {"type", to_text(t.type)},
          {"order", to_text(t.order)},
          {"use", to_text(t.use)}};
}

tensor tensor_from(const json& value, const place& at) {
  fields f(value, at);
  tensor t;
  t.name = f.text("name");
  const auto shape = f.list("shape");
  if (shape.size() != 4) refuse(f.where("shape"), "wants four extents");
  const auto extent = [&](std::size_t i) { return as_integer(*shape[i].first, shape[i].second, 1); };
  t.shape = {extent(0), extent(1), extent(2), extent(3)};
  if (f.has("type")) t.type = as_choice<dtype>(f.at("type"), f.where("type"));
  if (f.has("order")) t.order = memory_order_from(f.at("order"), f.where("order"));
  if (f.has("use")) t.use = as_choice<role>(f.at("use"), f.where("use"));
  f.finish();
  return t;
}

json json_of(const graph& g, const op& o) {
  const auto names = [&](const std::vector<tensor_id>& ids) {
    json list = json::array();
    for (const tensor_id id : ids) list.push_back(g.tensors[id].name);
    return list;
  };
  json out{{"name", o.name}, {"kind", kind_of(o.what)}};
  std::visit([&](const auto& attributes) { write(out, attributes); }, o.what);
  out["in"] = names(o.in);
  out["out"] = names(o.out);
  out["repeatable"] = o.repeatable;
  out["alias"] = o.alias ? json{{"input", o.alias->input}, {"output", o.alias->output}} : json(nullptr);
  return out;
}

using tensor_ids = std::map<std::string, tensor_id, std::less<>>;

std::vector<tensor_id> operands_from(fields& f, std::string_view name, const tensor_ids& ids) {
  std::vector<tensor_id> operands;
  for (const auto& [value, at] : f.list(name)) {
    const std::string tensor_name = as_text(*value, at);
    const auto found = ids.find(tensor_name);
    if (found == ids.end()) refuse(at, fmt::format("no tensor is named \"{}\"", one_line(tensor_name)));
    operands.push_back(found->second);
  }
  return operands;
}

std::optional<may_alias> alias_from(fields& f) {
  if (!f.has("alias") || f.is_null("alias")) return std::nullopt;
  fields a = f.object("alias");
  may_alias alias{static_cast<std::uint32_t>(a.integer("input", 0, most_attribute)),
                  static_cast<std::uint32_t>(a.integer("output", 0, most_attribute))};
  a.finish();
  return alias;
}

// Plans name operators.
void check_names(const graph& g, const place& ops) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < g.ops.size(); ++i) {
    if (!names.insert(g.ops[i].name).second)
      refuse(inside(inside(ops, i), "name"),
             fmt::format("two operators are named \"{}\"", one_line(g.ops[i].name)));
  }
}

void check_work(const graph& g, const op& o, const place& at) {
  try {
    work_of(g, o);
  } catch (const std::overflow_error& error) {
    refuse(at, one_line(error.what()));
  }
}

op op_from(const json& value, const place& at, const tensor_ids& ids) {
  fields f(value, at);
  op o;
  o.name = f.text("name");
  o.what = attributes_from(f);
  o.in = operands_from(f, "in", ids);
  o.out = operands_from(f, "out", ids);
  o.repeatable = boolean_or(f, "repeatable", true);
  o.alias = alias_from(f);
  f.finish();
  return o;
}

}  // namespace

json json_of(const graph& g) {
  json tensors = json::array(), ops = json::array();
  for (const tensor& t : g.tensors) tensors.push_back(json_of(t));
  for (const op& o : g.ops) ops.push_back(json_of(g, o));
  json out{{"schema", 1}, {"kind", "graph"}, {"name", g.name}, {"precision", to_text(g.arithmetic)}};
  if (!g.shares_memory) out["shares_memory"] = false;
  out["tensors"] = std::move(tensors);
  out["ops"] = std::move(ops);
  return out;
}

std::vector<std::string> operator_kinds() {
  std::vector<std::string> names;
  for (const op_attributes& kind : every_kind()) names.emplace_back(kind_of(kind));
  return names;
}

std::string to_json(const graph& g) {
  return dump_indented(json_of(g));
}

graph graph_from(const json& document, const place& at) {
  fields f(document, at);
  f.schema();
  as_one_of(f.at("kind"), f.where("kind"), {"graph"});
  graph g;
  g.name = f.text("name");
  g.arithmetic = precision_from(f.at("precision"), f.where("precision"));
  g.shares_memory = boolean_or(f, "shares_memory", true);
  tensor_ids ids;
  for (const auto& [value, where] : f.list("tensors")) {
    g.tensors.push_back(tensor_from(*value, where));
    const bool is_new =
        ids.emplace(g.tensors.back().name, static_cast<tensor_id>(g.tensors.size() - 1)).second;
    if (!is_new)
      refuse(inside(where, "name"),
             fmt::format("two tensors are named \"{}\"", one_line(g.tensors.back().name)));
  }
  for (const auto& [value, where] : f.list("ops")) g.ops.push_back(op_from(*value, where, ids));
  f.finish();
  check_names(g, f.where("ops"));
  if (const auto defect = defect_of(g)) refuse(at, one_line(*defect));
  for (std::size_t i = 0; i < g.ops.size(); ++i) check_work(g, g.ops[i], inside(f.where("ops"), i));
  return g;
}

graph graph_from_json(std::string_view text, const std::string& source) {
  return graph_from(parse_json(text, source), {source, ""});
}

}  // namespace um
