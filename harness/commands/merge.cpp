#include <fmt/format.h>

#include "harness/commands/commands.hpp"
#include "harness/json/merge.hpp"
#include "harness/records/suggest.hpp"

namespace um {

int merge_command(const merge_options& options) {
  std::vector<part> parts;
  for (const std::string& path : options.parts) {
    const record_file file(path, open_mode::read);
    if (file.was_torn()) fmt::print(stderr, "{}: left out a torn last line\n", path);
    parts.push_back(part_of(file));
  }
  const std::vector<file_entry> entries = merged(std::move(parts));
  if (entries.empty()) throw input_error("the parts hold no record; there is nothing to merge");
  record_file out(options.out, open_mode::create);
  std::size_t records = 0;
  for (const file_entry& entry : entries) {
    std::visit([&](const auto& e) { out.append(e); }, entry);
    records += std::holds_alternative<record>(entry);
  }
  fmt::print("{} cells of {} {} are in {}\n", records, options.parts.size(),
             options.parts.size() == 1 ? "part" : "parts", options.out);
  return 0;
}

}  // namespace um
