#include "harness/json/machines.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/json/json.hpp"

namespace um {
namespace {

std::vector<std::filesystem::path> json_files(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  std::filesystem::directory_iterator entry(folder, error);
  if (error) {
    throw input_error(
        fmt::format("{}: {}; --machines wants a folder of machine files", folder.string(), error.message()));
  }
  for (const auto& found : entry) {
    if (found.path().extension() == ".json") files.push_back(found.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void insert_machine(std::vector<machine>& machines, machine added) {
  const auto same =
      std::find_if(machines.begin(), machines.end(), [&](const machine& m) { return m.name == added.name; });
  if (same == machines.end()) {
    machines.push_back(std::move(added));
  } else {
    *same = std::move(added);
  }
}

}  // namespace

std::vector<machine> load_machines(const std::optional<std::filesystem::path>& extra) {
  std::vector<machine> machines;
  for (const machine_text& m : embedded_machines()) {
    insert_machine(machines, machine_from_json(m.text, m.file_name));
  }
  if (extra) {
    for (const auto& file : json_files(*extra)) {
      insert_machine(machines, machine_from_json(read_file(file), file.string()));
    }
  }
  return machines;
}

}  // namespace um
