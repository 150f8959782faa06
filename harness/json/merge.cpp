#include "harness/json/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/io/errors.hpp"
#include "harness/json/json.hpp"
#include "harness/study/record.hpp"

namespace um {
namespace {

bool has_one_environment(const std::vector<part>& parts) {
  const part_entry* first = nullptr;
  for (const part& p : parts) {
    for (const part_entry& e : p) {
      if (first == nullptr) first = &e;
      if (!same_environment(first->recorded_environment, e.recorded_environment)) return false;
    }
  }
  return true;
}

// Takes one record of each part in turn.
part interleave(std::vector<part>& parts) {
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

part concatenate(std::vector<part>& parts) {
  part all;
  for (part& p : parts) std::move(p.begin(), p.end(), std::back_inserter(all));
  return all;
}

// The record as text, without fields that differ between runs.
std::string result_text(record r) {
  r.planning_time.reset();
  return to_json(r);
}

// Replaces `kept` by `other` if only that has a result. Throws if both have different results.
void keep_one_result(part_entry& kept, part_entry&& other) {
  if (!is_result(other.entry.result)) return;
  if (!is_result(kept.entry.result)) {
    kept = std::move(other);
  } else if (result_text(kept.entry) != result_text(other.entry)) {
    throw input_error(
        fmt::format("{} has two different results in these parts; leave one of them out", kept.entry.key));
  }
}

part drop_duplicates(part all) {
  part kept;
  std::map<std::string, std::size_t> seen;
  for (part_entry& e : all) {
    const auto [at, is_new] = seen.emplace(e.entry.key, kept.size());
    if (is_new) {
      kept.push_back(std::move(e));
    } else {
      keep_one_result(kept[at->second], std::move(e));
    }
  }
  return kept;
}

void check_figures_and_rules(const std::vector<part>& parts) {
  figures_and_rules_checker book;
  for (const part& p : parts) {
    for (const part_entry& e : p) {
      if (const auto conflict = book.conflict(e.entry)) {
        throw input_error(
            fmt::format("{}: between these parts, {}; leave one of them out", e.entry.key, *conflict));
      }
      book.remember(e.entry);
    }
  }
}

// Checks digests in two passes: the record of `device`, the reference, may be in another part.
void check_digests(part& all) {
  digest_checker digests;
  for (part_entry& e : all) {
    if (e.entry.strategy == baseline_strategy) digests.check(e.entry);
  }
  for (part_entry& e : all) digests.check(e.entry);
}

}  // namespace

part part_from_file(const record_file& file) {
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

std::vector<file_entry> merge_parts(std::vector<part> parts) {
  check_figures_and_rules(parts);
  part all = drop_duplicates(has_one_environment(parts) ? interleave(parts) : concatenate(parts));
  check_digests(all);
  std::vector<file_entry> entries;
  const environment* last = nullptr;
  for (part_entry& e : all) {
    if (last == nullptr || !same_environment(*last, e.recorded_environment))
      entries.emplace_back(e.recorded_environment);
    last = &e.recorded_environment;
    entries.emplace_back(std::move(e.entry));
  }
  return entries;
}

}  // namespace um
