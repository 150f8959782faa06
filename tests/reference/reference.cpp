#include "tests/reference/reference.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include "core/hash.hpp"
#include "core/operands.hpp"

namespace um::reference {
namespace {

std::uint64_t mixed(std::uint64_t x) {  // splitmix64 (Steele, Lea and Flood 2014)
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

constexpr double grain = 1.0 / (1 << 20);

// How a tensor that is given is filled.
struct filling {
  double limit = 1;  // values in (middle - limit, middle + limit)
  double middle = 0;
  std::uint64_t classes = 0;  // if not 0: whole numbers below it
};

double number(const filling& how, std::uint64_t bits) {
  if (how.classes != 0) return static_cast<double>(bits % how.classes);
  const double unit = static_cast<double>(bits >> 11U) / static_cast<double>(1ULL << 53U);
  return std::trunc((how.middle + (2 * unit - 1) * how.limit) / grain) * grain;
}

// What is given is told by the operator that reads it, through casts: readers come first.
std::vector<filling> fillings_of(const graph& g) {
  std::vector<filling> all(g.tensors.size());
  const filling small{0.1}, positive{0.5, 1};
  const auto weigh = [&](const op& o) {
    const dims& w = g.tensors[o.in[1]].shape;
    all[o.in[1]] = {std::sqrt(6.0 / static_cast<double>(w.c * w.h * w.w))};
    if (o.in.size() > 2) all[o.in[2]] = small;
  };
  const auto classify = [&](const op& o) {
    all[o.in[1]] = {.classes = static_cast<std::uint64_t>(g.tensors[o.in[0]].shape.c)};
  };
  const auto choose = [&](const op& o, const max_pool& a) {  // without padding any place of a window
    all[o.in[1]] = {.classes = static_cast<std::uint64_t>(a.pad == 0 ? a.window * a.window : 1)};
  };
  const auto keep_squares_positive = [&](const op& o, const optimizer_step& a) {
    if (a.moments < 2) return;
    for (const stepped_parameter& p : stepped_parameters(g, o)) all[o.in[p.parameter_index + 3]] = positive;
    all[o.in.back()] = {.classes = 9};
  };
  const auto scale = [&](const op& o) {
    all[o.in[1]] = positive;
    all[o.in[2]] = small;
  };
  for (auto o = g.ops.rbegin(); o != g.ops.rend(); ++o) {
    std::visit(overloaded{[&](const convolution&) { weigh(*o); }, [&](const linear&) { weigh(*o); },
                          [&](const max_pool& a) {
                            if (a.relu) all[o->in[1]] = small;
                          },
                          [&](const max_pool_backward& a) { choose(*o, a.forward); },
                          [&](const batch_norm&) { scale(*o); },
                          [&](const normalize&) {
                            scale(*o);
                            all[o->in[3]] = small;
                            all[o->in[4]] = positive;
                          },
                          [&](const cast&) { all[o->in[0]] = all[o->out[0]]; },
                          [&](const optimizer_step& a) { keep_squares_positive(*o, a); },
                          [&](const softmax_cross_entropy&) { classify(*o); },
                          [&](const softmax_cross_entropy_backward&) { classify(*o); },
                          [&](const softmax_cross_entropy_gradient&) { classify(*o); }, [](const auto&) {}},
               o->attributes.value);
  }
  return all;
}

void expect_well_formed(const graph& g) {
  if (const auto defect = defect_of(g)) throw std::invalid_argument(*defect);
}

}  // namespace

void expect_size(const tensor& t, const values& v) {
  if (v.size() == static_cast<std::size_t>(element_count(t.shape))) return;
  throw std::invalid_argument("tensor " + t.name + " of shape " + to_text(t.shape) + " cannot hold " +
                              std::to_string(v.size()) + " values");
}

std::map<tensor_id, values> execute(const graph& g, const std::map<tensor_id, values>& given) {
  expect_well_formed(g);
  std::map<tensor_id, values> all;
  for (tensor_id id = 0; id < g.tensors.size(); ++id) {
    const tensor& t = g.tensors[id];
    if (!persists(t.role)) continue;
    const auto found = given.find(id);
    if (found == given.end()) throw std::invalid_argument("no values given for tensor " + t.name);
    expect_size(t, found->second);
    all[id] = found->second;
  }
  for (const op& o : g.ops) {
    std::vector<values> in;
    for (const tensor_id id : o.in) in.push_back(all.at(id));
    std::vector<values> out = execute(g, o, in);
    for (std::size_t i = 0; i < out.size(); ++i) all[o.out[i]] = std::move(out[i]);
  }
  return all;
}

std::map<tensor_id, values> numbers_for(const graph& g, std::uint64_t seed) {
  expect_well_formed(g);
  const std::vector<filling> how = fillings_of(g);
  std::map<tensor_id, values> all;
  for (tensor_id id = 0; id < g.tensors.size(); ++id) {
    if (!persists(g.tensors[id].role)) continue;
    values v(static_cast<std::size_t>(element_count(g.tensors[id].shape)));
    const std::uint64_t start = mixed(mixed(seed) ^ fnv1a(g.tensors[id].name));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = number(how[id], mixed(start + i));
    all[id] = std::move(v);
  }
  return all;
}

}  // namespace um::reference
