#include "perform/join/job_terms.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/json.h"
#include "spec/plan/plan_file.h"

namespace tombolo::join {
namespace {

Value::Table without(const Value& section, const char* key) {
  Value::Table out = *section.get<Value::Table>();
  std::erase_if(out, [&](const auto& entry) { return entry.first == key; });
  return out;
}

Value terms_of(const plan::Plan& plan) {
  const Value all = plan::to_value(plan);
  Value::Table run;
  for (const char* key : {"steps", "seed"}) {
    if (const Value* value = all.find("run")->find(key)) run.emplace_back(key, *value);
  }
  Value::Table out{{"run", Value(std::move(run))}};
  for (const char* key : {"model", "training", "optimizer", "exchange"}) {
    const Value* section = all.find(key);
    if (!section || !section->get<Value::Table>()) continue;
    // Of a density that may change the first one follows from how fast devices are.
    const char* open = section->find("density_range") ? "density" : "name";
    out.emplace_back(key, without(*section, open));
  }
  // How fast devices are may be known on one host alone.
  out.emplace_back("parallelism", without(*all.find("parallelism"), "microbatches_per_replica"));
  return Value(std::move(out));
}

std::string text_of(const Value* value) { return value ? to_json(*value, -1) : "left out"; }

struct Difference {
  std::string key, own, launchers;
};

std::optional<Difference> difference(const Value* own, const Value* launchers,
                                     const std::string& key) {
  const auto* here = own ? own->get<Value::Table>() : nullptr;
  const auto* there = launchers ? launchers->get<Value::Table>() : nullptr;
  if (!here || !there) {
    if (own && launchers && *own == *launchers) return std::nullopt;
    if (!own && !launchers) return std::nullopt;
    return Difference{key, text_of(own), text_of(launchers)};
  }
  std::vector<std::string> names;
  for (const auto* table : {here, there}) {
    for (const auto& [name, value] : *table) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    const std::string path = key.empty() ? name : key + "." + name;
    if (auto found = difference(own->find(name), launchers->find(name), path)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::string job_terms(const plan::Plan& plan) { return to_json(terms_of(plan), -1); }

Status check_job_terms(const std::string& own, const plan::Plan& plan) {
  const Value here = TRY(parse_json(own, "this rank's job", 0));
  // As it comes back from text: numbers lose nothing, but kinds of them.
  const Value there = TRY(parse_json(job_terms(plan), "the launcher's job", 0));
  const auto found = difference(&here, &there, "");
  if (!found) return {};
  return unusable(fmt::format("{} = {} in this rank's own job, and {} in the launcher's",
                              found->key, found->own, found->launchers),
                  "the same job file, and the same --steps and --seed, on all hosts");
}

}  // namespace tombolo::join
