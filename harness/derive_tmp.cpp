// readings in a text file ("name v v v") -> figures
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include "benchmarks/measure/figures.hpp"
#include "harness/json.hpp"
#include "harness/machines.hpp"
#include "harness/suggest.hpp"
using namespace um;
int main(int argc, char** argv) {
  measure::readings all;
  std::ifstream in(argv[1]);
  for (std::string line; std::getline(in, line);) { std::istringstream s(line); std::string n; s >> n; for (double v; s >> v;) all[n].push_back(v); }
  measure::calibration c{measure::figures_from(all), {}};
  for (auto& [n, v] : all) c.samples[n] = measure::spread_of(v);
  if (argc > 2) {
    machine made = machine_named(load_machines(std::nullopt), "h200");
    c.found.by_name["host_bytes"] = {1, 135148564480.0, 135148564480.0, 135148564480.0};
    made = with_figures(std::move(made), c.found.by_name);
    made.estimated.insert(made.estimated.end(), c.found.inferred.begin(), c.found.inferred.end());
    made.name = "h200"; made.calibrated = false;
    std::ifstream src(argv[2]); std::stringstream t; t << src.rdbuf(); made.source = t.str();
    while (!made.source.empty() && made.source.back() == '\n') made.source.pop_back();
    std::cout << to_json(made, c);
    return 0;
  }
  for (auto& [n, s] : c.found.by_name) printf("%s %.1f\n", n.c_str(), s.typical);
  for (auto& n : c.found.notes) printf("note: %s\n", n.c_str());
}
