#include "harness/json/merge.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "harness/commands/commands.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/io/say.hpp"
#include "harness/io/text.hpp"
#include "harness/json/json.hpp"

namespace um {

int merge_command(const merge_options& options) {
  if (options.out == "-") throw input_error("--out -: records go into a file; name it, such as all.jsonl");
  std::error_code error;
  if (std::filesystem::is_regular_file(options.out, error) &&
      std::filesystem::file_size(options.out, error) > 0) {
    throw input_error(fmt::format("{}: exists already; choose another --out", one_line(options.out)));
  }
  std::vector<part> parts;
  std::string empty_ones;
  for (const std::string& path : options.parts) {
    const record_file file(path, open_mode::read);
    if (file.earlier().empty()) empty_ones += path + ": holds no record\n";
    parts.push_back(part_from_file(file));
  }
  const std::vector<file_entry> entries = merge_parts(std::move(parts));
  if (entries.empty()) throw input_error("the parts hold no record; there is nothing to merge");
  print_text("{}", empty_ones);
  std::string text;
  std::size_t records = 0;
  for (const file_entry& entry : entries) {
    text += std::visit([](const auto& e) { return to_json(e); }, entry) + "\n";
    records += std::holds_alternative<record>(entry);
  }
  write_file(options.out, text);
  fmt::print("{} cells of {} {} are in {}\n", records, options.parts.size(),
             options.parts.size() == 1 ? "part" : "parts", options.out);
  return 0;
}

}  // namespace um
