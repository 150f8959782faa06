#include "harness/json/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/io/errors.hpp"
#include "harness/json/json.hpp"
#include "harness/study/digests.hpp"
#include "harness/study/settings.hpp"

namespace um {
namespace {

bool one_environment(const std::vector<part>& parts) {
  const part_entry* first = nullptr;
  for (const part& p : parts) {
    for (const part_entry& e : p) {
      if (first == nullptr) first = &e;
      if (!same_environment(first->recorded_in, e.recorded_in)) return false;
    }
  }
  return true;
}

// One record of each part in turn.
part interleaved(std::vector<part>& parts) {
  part all;
  std::size_t longest = 0;
  for (const part& p : parts) longest = std::max(longest, p.size());
  for (std::size_t i = 0; i < longest; ++i) {
    for (part& p : parts) {
      if (i < p.size()) all.push_back(std::move(p[i]));
    }
  }
  return all;
}

part concatenated(std::vector<part>& parts) {
  part all;
  for (part& p : parts) std::move(p.begin(), p.end(), std::back_inserter(all));
  return all;
}

// The record as text, without fields that differ from run to run.
std::string result_text(record r) {
  r.planning.reset();
  return to_json(r);
}

// Keeps the record of two of one cell that counts.
void keep_better_record(part_entry& kept, part_entry&& other) {
  if (!is_result(other.what.result)) return;
  if (!is_result(kept.what.result)) {
    kept = std::move(other);
  } else if (result_text(kept.what) != result_text(other.what)) {
    throw input_error(
        fmt::format("{} has two different results in these parts; leave one of them out", kept.what.key));
  }
}

part without_duplicates(part all) {
  part kept;
  std::map<std::string, std::size_t> seen;
  for (part_entry& e : all) {
    const auto [at, is_new] = seen.emplace(e.what.key, kept.size());
    if (is_new) {
      kept.push_back(std::move(e));
    } else {
      keep_better_record(kept[at->second], std::move(e));
    }
  }
  return kept;
}

void check_settings(const std::vector<part>& parts) {
  settings_book book;
  for (const part& p : parts) {
    for (const part_entry& e : p) {
      if (const auto conflict = book.conflict(e.what)) {
        throw input_error(
            fmt::format("{}: between these parts, {}; leave one of them out", e.what.key, *conflict));
      }
      book.note(e.what);
    }
  }
}

// In two passes: `device`, against which the others are held, may be in another part.
void check_digests(part& all) {
  digest_book digests;
  for (part_entry& e : all) {
    if (e.what.strategy == baseline_strategy) digests.check(e.what);
  }
  for (part_entry& e : all) digests.check(e.what);
}

}  // namespace

part part_of(const record_file& file) {
  part all;
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < file.earlier().size(); ++i) {
    const record& r = file.earlier()[i];
    part_entry e{file.environments().at(file.environment_of(i)), r};
    const auto [at, is_new] = seen.emplace(r.key, all.size());
    if (is_new) {
      all.push_back(std::move(e));
    } else {
      all[at->second] = std::move(e);
    }
  }
  return all;
}

std::vector<file_entry> merged(std::vector<part> parts) {
  check_settings(parts);
  part all = without_duplicates(one_environment(parts) ? interleaved(parts) : concatenated(parts));
  check_digests(all);
  std::vector<file_entry> entries;
  const environment* last = nullptr;
  for (part_entry& e : all) {
    if (last == nullptr || !same_environment(*last, e.recorded_in)) entries.emplace_back(e.recorded_in);
    last = &e.recorded_in;
    entries.emplace_back(std::move(e.what));
  }
  return entries;
}

}  // namespace um
