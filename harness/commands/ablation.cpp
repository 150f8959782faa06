#include "harness/commands/ablation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/study/summary.hpp"

namespace um {
namespace {

constexpr double noticeable = 1.02;

// --- texts of the moved data ---

std::string gib_text(std::optional<byte_count> bytes) {
  return bytes ? fmt::format("{:.2f}", static_cast<double>(*bytes) / static_cast<double>(GiB)) : "?";
}

struct traffic_texts {
  std::string to_device = "", to_host = "", remote = "", faults = "";
};

traffic_texts texts_of_traffic(const record& r) {
  if (!r.last) return {};
  const counters& c = *r.last;
  return {gib_text(bytes_to_device(c)), gib_text(bytes_to_host(c)), gib_text(c.remote_bytes),
          c.faults ? fmt::format("{}", *c.faults) : "?"};
}

// --- explanations of harmful hints ---

bool is_written_by_operators(role use) {
  return use != role::input && use != role::label && use != role::parameter;
}

// Explains by the driver's rules why a harmful hint harms; "" if no rule explains it.
std::string_view explain_harm(const hint_rule& r) {
  const auto* a = std::get_if<advice_rule>(&r.policy);
  const bool written =
      r.tensors.roles.empty() || std::ranges::any_of(r.tensors.roles, is_written_by_operators);
  if (a != nullptr && a->hint == advice::read_mostly && written) return "every write takes back the copies";
  const auto* d = std::get_if<discard_rule>(&r.policy);
  if (d != nullptr && !d->repopulates) return "with no prefetch, the next write populates page by page";
  return "";
}

std::string verdict_text(const record& r, const record& base, std::span<const hint_rule> added) {
  const auto time = steady_ns(r), before = steady_ns(base);
  if (!time) return std::string(to_text(r.result));
  return before ? verdict(*before, *time, added) : "";
}

// --- tables ---

std::string row(std::string_view name, const record& r, const std::string& verdict) {
  const traffic_texts f = texts_of_traffic(r);
  const auto time = steady_ns(r);
  return fmt::format("  {:<38} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", name, time ? time_text(*time) : "-",
                     f.to_device, f.to_host, f.remote, f.faults, verdict);
}

std::string table_head(std::string_view title) {
  return fmt::format("\n  {:<38} {:>9} {:>9} {:>9} {:>9} {:>9}\n", title, "time", "to device", "to host",
                     "remote", "faults");
}

const record& find_managed_record(std::span<const record> named) {
  const auto at = std::ranges::find(named, "managed", &record::strategy);
  if (at == named.end()) throw std::invalid_argument("no record of managed among the named strategies");
  return *at;
}

std::string strategy_rows(std::span<const record> named, const record& managed, bool of_single_rules) {
  std::string text;
  for (const record& r : named) {
    const std::vector<hint_rule>& rules = r.rules.value().rules;
    if (rules.empty() || (rules.size() == 1) != of_single_rules) continue;
    text += row(r.strategy, r, verdict_text(r, managed, rules));
  }
  return text;
}

// Verdict on a rule, from the times without and with it.
std::string verdict_without_rule(const record& r, const record& whole, const hint_strategy& set,
                                 const std::string& rule) {
  const auto added = std::ranges::find(set.rules, rule, &hint_rule::name);
  const auto time = steady_ns(r);
  if (!time) return fmt::format("needed: without it {}", outcome_text(r));
  if (!steady_ns(whole)) return "";
  return verdict(*time, *steady_ns(whole), std::span(&*added, 1));
}

}  // namespace

ablation_plan plan_ablation(const hint_strategy& set) {
  ablation_plan plan{set, {}, {}};
  for (const hint_rule& kept : set.rules) {
    hint_strategy alone = set, less = without_rule(set, kept.name);
    for (const hint_rule& r : set.rules) {
      if (r.name != kept.name) alone = without_rule(std::move(alone), r.name);
    }
    if (set.rules.size() > 1 && !defect_of(alone)) plan.single_rules.push_back({kept.name, std::move(alone)});
    if (!defect_of(less)) plan.without_one_rule.push_back({kept.name, std::move(less)});
  }
  return plan;
}

std::vector<hint_strategy> strategies_of(const ablation_plan& plan) {
  std::vector<hint_strategy> all{plan.all_rules};
  for (const rule_subset& a : plan.single_rules) all.push_back(a.rules);
  for (const rule_subset& a : plan.without_one_rule) all.push_back(a.rules);
  return all;
}

std::string verdict(double before_ns, double after_ns, std::span<const hint_rule> added) {
  if (before_ns >= after_ns * noticeable)
    return fmt::format("helps: {:.2f} times as fast", before_ns / after_ns);
  if (after_ns < before_ns * noticeable) return "no effect";
  std::string text = fmt::format("harmful: {:.2f} times as long", after_ns / before_ns);
  for (const hint_rule& r : added) {
    if (!explain_harm(r).empty()) text += fmt::format(" ({})", explain_harm(r));
  }
  return text;
}

std::string ablation_text(std::span<const record> named, const ablation_plan& plan,
                          std::span<const record> of_plan) {
  const record &managed = find_managed_record(named), &whole = of_plan.front();
  std::string text = fmt::format("{}\n  bytes in GiB, of the last iteration\n", provenance(managed));
  text += table_head("no hint") + row("managed", managed, outcome_text(managed));
  text += table_head("each hint alone, against managed") + strategy_rows(named, managed, true);
  std::size_t next = 1;
  for (const rule_subset& a : plan.single_rules) {
    const record& r = of_plan[next++];
    text += row(fmt::format("{} of {}", a.rule_name, plan.all_rules.name), r,
                verdict_text(r, managed, a.rules.rules));
  }
  text += table_head("several hints, against managed") + strategy_rows(named, managed, false);
  text += table_head(plan.all_rules.name + ", and each rule left out") +
          row("all rules", whole, verdict_text(whole, managed, {}));
  for (const rule_subset& a : plan.without_one_rule) {
    const record& r = of_plan[next++];
    text += row("without " + a.rule_name, r,
                "rule " + verdict_without_rule(r, whole, plan.all_rules, a.rule_name));
  }
  return text;
}

}  // namespace um
