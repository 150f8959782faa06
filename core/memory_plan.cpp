#include "core/memory_plan.hpp"

#include <numeric>
#include <optional>
#include <stdexcept>

namespace um {
namespace {

// Collects the cuts of one tensor; refuses a second axis.
void join(const tensor& t, cut& have, axis along, std::uint32_t of) {
  if (of == 1) return;
  if (have.of != 1 && have.along != along) {
    throw std::invalid_argument("tensor " + t.name + " is cut along " + std::string(to_text(have.along)) +
                                " and " + std::string(to_text(along)) +
                                "; a plan may cut it along one axis only");
  }
  const std::uint64_t parts = std::lcm<std::uint64_t>(have.of, of);
  if (parts > static_cast<std::uint64_t>(extent_of(t.shape, along))) {
    throw std::invalid_argument("tensor " + t.name + " is cut into " + std::to_string(parts) +
                                " parts along " + std::string(to_text(along)) + " but has only " +
                                std::to_string(extent_of(t.shape, along)) + " elements there");
  }
  have = {along, static_cast<std::uint32_t>(parts)};
}

std::string followed_by(const slice& s) {
  return is_whole(s) ? "" : " " + to_text(s);
}

}  // namespace

std::string to_text(const slice& s) {
  if (is_whole(s)) return "";
  return "[" + std::string(to_text(s.along)) + " " + std::to_string(s.part) + "/" + std::to_string(s.of) +
         "]";
}

std::string_view to_text(residence home) {
  switch (home) {
    case residence::device:
      return "device";
    case residence::staged:
      return "staged";
    case residence::managed:
      return "managed";
    case residence::twinned:
      return "twinned";
    case residence::host:
      return "host";
  }
  return "?";
}

std::string_view to_text(advice hint) {
  switch (hint) {
    case advice::read_mostly:
      return "read_mostly";
    case advice::preferred_device:
      return "preferred_device";
    case advice::preferred_host:
      return "preferred_host";
    case advice::accessed_by_device:
      return "accessed_by_device";
  }
  return "?";
}

std::string to_text(const graph& g, const action& a) {
  const auto name = [&](tensor_id id) {
    return id < g.tensors.size() ? g.tensors[id].name : "#" + std::to_string(id);
  };
  return std::visit(
      overloaded{
          [&](const advise& x) { return "advise " + name(x.what) + " " + std::string(to_text(x.hint)); },
          [&](const prefetch& x) { return "prefetch " + name(x.what) + followed_by(x.part); },
          [&](const evict& x) { return "evict " + name(x.what) + followed_by(x.part); },
          [&](const discard& x) { return "discard " + name(x.what) + followed_by(x.part); },
          [&](const compute& x) {
            return "compute " + (x.what < g.ops.size() ? g.ops[x.what].name : "#" + std::to_string(x.what)) +
                   followed_by(x.part);
          },
      },
      a);
}

std::vector<cut> cuts_of(const graph& g, const memory_plan& plan) {
  std::vector<cut> cuts(g.tensors.size());
  const auto of_movement = [&](tensor_id what, const slice& s) {
    join(g.tensors[what], cuts[what], s.along, s.of);
  };
  for (const action& a : plan.actions) {
    std::visit(overloaded{
                   [](const advise&) {},
                   [&](const prefetch& x) { of_movement(x.what, x.part); },
                   [&](const evict& x) { of_movement(x.what, x.part); },
                   [&](const discard& x) { of_movement(x.what, x.part); },
                   [&](const compute& x) {
                     if (is_whole(x.part)) return;
                     // What a slice writes is complete only once every slice has run.
                     for (const access& touched : accesses_of(g, g.ops[x.what], x.part)) {
                       const tensor& t = g.tensors[touched.what];
                       if (touched.mode == access_mode::write && !is_whole(t.shape, touched.where)) {
                         join(t, cuts[touched.what], touched.where.along, x.part.of);
                       }
                     }
                   },
               },
               a);
  }
  return cuts;
}

part_run parts_of(const dims& shape, const cut& c, const region& r) {
  if (c.of == 1 || r.along != c.along || is_whole(shape, r)) return {0, c.of};
  const auto extent = static_cast<std::uint64_t>(extent_of(shape, c.along));
  const auto start = [&](std::uint64_t part) { return extent * part / c.of; };
  auto first = static_cast<std::uint32_t>(static_cast<std::uint64_t>(r.begin) * c.of / extent);
  while (first + 1 < c.of && start(first + 1) <= static_cast<std::uint64_t>(r.begin)) ++first;
  std::uint32_t last = first;
  while (last < c.of && start(last) < static_cast<std::uint64_t>(r.end)) ++last;
  return {first, last};
}

part_run parts_of(const cut& c, const slice& s) {
  if (is_whole(s)) return {0, c.of};
  const std::uint32_t each = c.of / s.of;
  return {s.part * each, (s.part + 1) * each};
}

}  // namespace um
