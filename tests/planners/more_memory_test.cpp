// No strategy is more than 2 % slower with more memory, but for those that docs/method/papers.md names with
// the reason. rivals_test asks more of `best`.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "backends/simulator_backend.hpp"
#include "core/layout.hpp"
#include "core/lower.hpp"
#include "hints/hints.hpp"
#include "planners/planners.hpp"
#include "tests/machines.hpp"
#include "tests/planners/small_networks.hpp"

namespace {

using namespace um;
using namespace um::testing;

constexpr double tolerance = 1.02;

// Nothing where there is no plan.
std::optional<nanoseconds> time_within(backend& sim, const graph& g, const profile& costs, const strategy& by,
                                       byte_count budget) {
  const evictor under = by.kind == family::managed ? evictor::driver : evictor::plan;
  const problem p{g, costs, sim.describe(), budget, under, complete_knobs(by, {}), {}};
  try {
    return sim.execute(g, lower(p, by.plan(p), by.packing_algorithm), {2, false, false})
        .iterations.back()
        .duration;
  } catch (const infeasible&) {
    return std::nullopt;
  }
}

// The most that more memory makes the strategy slower, by steps of a tenth of the footprint.
double worst_rise(const std::string& network, const strategy& by) {
  const graph g = small_graph(network);
  const std::unique_ptr<backend> sim = open_simulator(managed_test_machine());
  const profile costs = sim->measure_operators(g);
  const byte_count footprint = footprint_of(g, costs).total;
  double worst = 1;
  std::optional<nanoseconds> less;
  for (int tenths = 3; tenths <= 10; ++tenths) {
    const auto now = time_within(*sim, g, costs, by, footprint / 10 * static_cast<byte_count>(tenths));
    if (!now && less) return std::numeric_limits<double>::infinity();  // no plan in more memory
    if (now && less) worst = std::max(worst, static_cast<double>(*now) / static_cast<double>(*less));
    if (now) less = now;
  }
  return worst;
}

std::set<std::string> named_in_docs() {
  std::ifstream file(UM_SOURCE_FOLDER "/docs/method/papers.md");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const std::size_t begin = page.find("## Where more memory is slower");
  if (begin == std::string::npos) return {};
  const std::string section = page.substr(begin, page.find("\n## ", begin + 1) - begin);
  std::set<std::string> names;
  const std::regex name("`([a-z_]+)`");
  for (std::sregex_iterator at(section.begin(), section.end(), name), end; at != end; ++at)
    names.insert((*at)[1].str());
  return names;
}

TEST(more_memory, is_slower_only_where_the_page_says_why) {
  const std::set<std::string> named = named_in_docs();
  std::set<std::string> slower;
  for (const auto& table : {planners(), hint_strategies()}) {
    for (const strategy& s : table) {
      if (s.name.starts_with("best") || complete_knobs(s, {}).contains("nodes")) continue;
      for (const char* network : {"residual", "vgg11"}) {
        const double rise = worst_rise(network, s);
        if (rise <= tolerance) continue;
        slower.insert(s.name);
        EXPECT_TRUE(named.contains(s.name)) << s.name << " on " << network << ": " << rise;
      }
    }
  }
  for (const std::string& name : named)
    EXPECT_TRUE(slower.contains(name)) << name << " is named but no slower";
}

}  // namespace
