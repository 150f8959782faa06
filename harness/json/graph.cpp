#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"
#include "harness/json/parts.hpp"

namespace um {
namespace {

constexpr std::int64_t most_attribute = std::numeric_limits<std::int32_t>::max();

std::int32_t small(fields& f, std::string_view name, std::int64_t least) {
  return static_cast<std::int32_t>(f.integer(name, least, most_attribute));
}

// --- attributes, one pair of functions for each kind that has any ---

void write(json& out, const convolution& c) {
  out["stride"] = {c.stride_h, c.stride_w};
  out["pad"] = {c.pad_h, c.pad_w};
  out["relu"] = c.relu;
}
std::pair<std::int32_t, std::int32_t> pair_from(fields& f, std::string_view name, std::int64_t least) {
  const auto values = f.list(name);
  if (values.size() != 2) refuse(f.where(name), "wants two numbers: rows, columns");
  const auto number = [&](std::size_t i) {
    return static_cast<std::int32_t>(as_integer(*values[i].first, values[i].second, least, most_attribute));
  };
  return {number(0), number(1)};
}
void read(fields& f, convolution& c) {
  std::tie(c.stride_h, c.stride_w) = pair_from(f, "stride", 1);
  std::tie(c.pad_h, c.pad_w) = pair_from(f, "pad", 0);
  c.relu = f.boolean("relu");
}

void write(json& out, const max_pool& p) {
  out["window"] = p.window;
  out["stride"] = p.stride;
  out["pad"] = p.pad;
  out["relu"] = p.relu;
}
void read(fields& f, max_pool& p) {
  p.window = small(f, "window", 1);
  p.stride = small(f, "stride", 1);
  p.pad = small(f, "pad", 0);
  p.relu = f.boolean("relu");
}

void write(json& out, const linear& l) {
  out["relu"] = l.relu;
}
void read(fields& f, linear& l) {
  l.relu = f.boolean("relu");
}

void write(json& out, const batch_norm& b) {
  out["epsilon"] = b.epsilon;
  out["relu"] = b.relu;
}
void read(fields& f, batch_norm& b) {
  b.epsilon = static_cast<float>(f.number("epsilon", 0, 1));
  b.relu = f.boolean("relu");
}

void write(json& out, const normalize& n) {
  out["relu"] = n.relu;
}
void read(fields& f, normalize& n) {
  n.relu = f.boolean("relu");
}

void write(json& out, const batch_norm_backward& b) {
  out["relu"] = b.relu;
  out["residual"] = b.residual;
  out["two_gradients"] = b.two_gradients;
}
void read(fields& f, batch_norm_backward& b) {
  b.relu = f.boolean("relu");
  b.residual = f.boolean("residual");
  b.two_gradients = f.boolean("two_gradients");
}

void write(json& out, const sgd_update& u) {
  out["learning_rate"] = u.learning_rate;
}
void read(fields& f, sgd_update& u) {
  u.learning_rate = static_cast<float>(f.number("learning_rate", -1e9, 1e9));
}

// Backward operators carry their forward operator's attributes; the others have none.
template <class T>
void write(json& out, const T& t) {
  if constexpr (requires { t.forward; }) {
    write(out, t.forward);
  } else {
    static_assert(std::is_empty_v<T>, "an operator with attributes needs a writer of its own");
  }
}
template <class T>
void read(fields& f, T& t) {
  if constexpr (requires { t.forward; }) {
    read(f, t.forward);
  } else {
    static_assert(std::is_empty_v<T>, "an operator with attributes needs a reader of its own");
  }
}

template <std::size_t... I>
std::vector<op_attributes> every_kind(std::index_sequence<I...>) {
  return {op_attributes(std::in_place_index<I>)...};
}

op_attributes attributes_from(fields& f) {
  const auto kinds = every_kind(std::make_index_sequence<std::variant_size_v<op_attributes>>{});
  std::vector<std::string> names;
  for (const op_attributes& kind : kinds) names.emplace_back(kind_of(kind));
  op_attributes what = kinds[as_one_of(f.at("kind"), f.where("kind"), names)];
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
  t.type =
      as_choice(f.at("type"), f.where("type"), {dtype::f32, dtype::bf16, dtype::i32, dtype::u8, dtype::u16});
  t.order = memory_order_from(f.at("order"), f.where("order"));
  t.use = as_choice(f.at("use"), f.where("use"),
                    {role::input, role::label, role::parameter, role::parameter_gradient, role::activation,
                     role::activation_gradient, role::output});
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
    if (found == ids.end()) refuse(at, fmt::format("no tensor is named \"{}\"", tensor_name));
    operands.push_back(found->second);
  }
  return operands;
}

std::optional<may_alias> alias_from(fields& f) {
  if (f.is_null("alias")) return std::nullopt;
  fields a = f.object("alias");
  may_alias alias{static_cast<std::uint32_t>(a.integer("input", 0, most_attribute)),
                  static_cast<std::uint32_t>(a.integer("output", 0, most_attribute))};
  a.finish();
  return alias;
}

op op_from(const json& value, const place& at, const tensor_ids& ids) {
  fields f(value, at);
  op o;
  o.name = f.text("name");
  o.what = attributes_from(f);
  o.in = operands_from(f, "in", ids);
  o.out = operands_from(f, "out", ids);
  o.repeatable = f.boolean("repeatable");
  o.alias = alias_from(f);
  f.finish();
  return o;
}

}  // namespace

std::string to_json(const graph& g) {
  json tensors = json::array(), ops = json::array();
  for (const tensor& t : g.tensors) tensors.push_back(json_of(t));
  for (const op& o : g.ops) ops.push_back(json_of(g, o));
  return dump_indented({{"schema", 1},
                        {"kind", "graph"},
                        {"name", g.name},
                        {"precision", to_text(g.arithmetic)},
                        {"tensors", std::move(tensors)},
                        {"ops", std::move(ops)}});
}

graph graph_from_json(std::string_view text, const std::string& source) {
  const json document = parse_json(text, source);
  fields f(document, {source, ""});
  f.schema();
  as_one_of(f.at("kind"), f.where("kind"), {"graph"});
  graph g;
  g.name = f.text("name");
  g.arithmetic = precision_from(f.at("precision"), f.where("precision"));
  tensor_ids ids;
  for (const auto& [value, at] : f.list("tensors")) {
    g.tensors.push_back(tensor_from(*value, at));
    const bool is_new =
        ids.emplace(g.tensors.back().name, static_cast<tensor_id>(g.tensors.size() - 1)).second;
    if (!is_new)
      refuse(inside(at, "name"), fmt::format("two tensors are named \"{}\"", g.tensors.back().name));
  }
  for (const auto& [value, at] : f.list("ops")) g.ops.push_back(op_from(*value, at, ids));
  f.finish();
  if (const auto defect = defect_of(g)) refuse(f.where(), *defect);
  return g;
}

}  // namespace um
