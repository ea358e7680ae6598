#include "decide/geo/mixed_why_not.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "base/check.h"
#include "predict/cost/memory_remedy.h"
#include "spec/plan/pipeline_ends.h"

namespace tombolo::geo {
namespace {

std::string largest_part(const cost::DeviceMemory& memory) {
  const std::pair<const char*, Bytes> parts[] = {{"parameters", memory.parameters},
                                                 {"gradients", memory.gradients},
                                                 {"optimizer state", memory.optimizer},
                                                 {"activations", memory.activations},
                                                 {"workspace", memory.workspace + memory.gathered},
                                                 {"the model of [prefill]", memory.prefill}};
  const auto most =
      std::max_element(std::begin(parts), std::end(parts),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return fmt::format("{} {}", most->first, brief(most->second));
}

std::string score_text(search::Objective objective, double score) {
  return objective == search::Objective::kCost
             ? fmt::format("{:.4g} USD per iteration", score)
             : fmt::format("{} per iteration", brief(Seconds{score}));
}

}  // namespace

std::vector<MixedWhyNotBook::Name> MixedWhyNotBook::names_of(const MixedSetting& s) const {
  std::vector<Name> names;
  std::set<std::string> seen;
  for (size_t z = 0; z < s.tensor.size(); ++z) {
    const std::string& device = task_.open.job.cluster.datacenters[z].device.name;
    if (s.tensor[z] == 0 || !seen.insert(device).second) continue;
    names.push_back({"tensor on " + device, std::to_string(s.tensor[z])});
  }
  names.push_back({"data", std::to_string(s.data)});
  names.push_back({"microbatch", std::to_string(s.micro_batch)});
  names.push_back({"recompute", std::string(to_name(s.recompute))});
  names.push_back({"zero", std::to_string(s.zero)});
  return names;
}

MixedWhyNotBook::Family& MixedWhyNotBook::family(const Name& name) {
  for (Family& family : families_) {
    if (family.name == name) return family;
  }
  return families_.emplace_back(Family{.name = name, .outlook = {}});
}

void MixedWhyNotBook::add(size_t setting, const MixedFindings& findings) {
  CHECK(setting < settings_.size(), "setting {} of {}", setting, settings_.size());
  const auto note = [&](Family& family, const MixedOutlook& outlook) {
    family.outlook.merge(outlook);
    if (findings.layers_held > family.layers_held) {
      family.layers_held = findings.layers_held;
      family.closest = setting;
    }
  };
  note(all_, findings.all);
  for (const Name& name : names_of(settings_[setting])) note(family(name), findings.all);
  // A setting that was cut as a whole says nothing of single datacenters but its bound.
  const auto& places = task_.open.job.cluster.datacenters;
  for (size_t z = 0; z < places.size(); ++z) {
    const MixedOutlook& outlook = findings.with.empty() ? findings.all : findings.with[z];
    note(family({"using", places[z].name}), outlook);
  }
}

std::string MixedWhyNotBook::describe(const MixedSetting& s) const {
  std::string tensors;
  std::set<std::string> seen;
  for (size_t z = 0; z < s.tensor.size(); ++z) {
    const std::string& device = task_.open.job.cluster.datacenters[z].device.name;
    if (s.tensor[z] == 0 || !seen.insert(device).second) continue;
    tensors += fmt::format("tensor {} on {}, ", s.tensor[z], device);
  }
  return fmt::format("{}data {}, microbatch {}, recompute {}, zero {}", tensors, s.data,
                     s.micro_batch, to_name(s.recompute), s.zero);
}

// The pipeline over all datacenters in the order of the file, evenly split: its fullest stage.
std::string MixedWhyNotBook::miss(const Family& family) const {
  if (plan::has_fixed_ends(task_.open.job.parallelism)) {
    return fmt::format(
        "no pipeline that begins and ends where it may has the devices and the memory{}",
        family.layers_held < 0 ? "" : " (" + describe(settings_[family.closest]) + ")");
  }
  if (family.layers_held < 0) return "no datacenter has room for it";
  const MixedSetting& setting = settings_[family.closest];
  const auto& places = task_.open.job.cluster.datacenters;
  const PricedSetting priced(task_.open.job, task_.law, setting,
                             task_.open.fixed.sequence_parallel);
  std::vector<size_t> stages;
  for (size_t z = 0; z < places.size(); ++z) {
    stages.insert(stages.end(), static_cast<size_t>(priced.room(z)), z);
  }
  if (stages.empty()) {
    return fmt::format("no datacenter has devices for one stage with {}", describe(setting));
  }
  const auto wanted = static_cast<size_t>(task_.open.fixed.pipeline.value_or(priced.layers()));
  if (stages.size() > wanted) stages.resize(wanted);
  const auto p = static_cast<int64_t>(stages.size());
  double worst = 0;
  std::string text;
  for (int64_t s = 0, first = 0; s < p; ++s) {
    const size_t z = stages[static_cast<size_t>(s)];
    const int64_t layers = priced.layers() / p + (s < priced.layers() % p ? 1 : 0);
    const cost::DeviceMemory memory =
        task_.law.memory(z, priced.configuration(z), {first, layers, s == 0, s + 1 == p},
                         std::min(priced.microbatches(), p - s));
    first += layers;
    const double share = memory.total() / places[z].device.memory;
    if (share <= worst) continue;
    worst = share;
    text = fmt::format("stage {} of {} in {} with {} layers needs {}, has {}; largest: {}", s, p,
                       places[z].name, layers, brief(memory.total()),
                       brief(places[z].device.memory), largest_part(memory));
  }
  const int64_t held = std::min(family.layers_held, priced.layers());
  if (held < priced.layers()) {
    return fmt::format("memory holds {} of {} layers; {} ({})", held, priced.layers(), text,
                       describe(setting));
  }
  if (worst <= 1) return fmt::format("no links for a pipeline that fits ({})", describe(setting));
  return fmt::format("{} ({})", text, describe(setting));
}

std::vector<MixedWhyNot> MixedWhyNotBook::why_not(const MixedSplit& best) const {
  std::vector<Name> own = names_of(best.setting);
  for (const size_t z : best.order) {
    own.push_back({"using", task_.open.job.cluster.datacenters[z].name});
  }
  std::vector<MixedWhyNot> out;
  const search::Objective objective = task_.options.objective;
  for (const Family& family : families_) {
    if (std::find(own.begin(), own.end(), family.name) != own.end()) continue;
    const MixedOutlook& o = family.outlook;
    MixedWhyNot why{.axis = family.name.axis, .value = family.name.value, .reason = {}};
    why.score = std::min(o.found, o.cut);
    const double more = 100 * (why.score / best.score - 1);
    if (why.score == kInfinity) {
      why.reason = miss(family);
    } else if (more < 0 && o.cut < o.found) {
      why.reason = fmt::format("at least {}, {:.1f} % less: the search was stopped before it",
                               score_text(objective, o.cut), -more);
    } else if (more < 0) {  // what the closed form puts first was simulated, and took longer
      why.reason = fmt::format("{} by the closed form, {:.1f} % less; no less when simulated",
                               score_text(objective, why.score), -more);
    } else {
      why.reason = fmt::format("{}{}, {:.1f} % more", o.cut < o.found ? "at least " : "",
                               score_text(objective, why.score), more);
    }
    out.push_back(std::move(why));
  }
  // Axis by axis, numbers as numbers.
  std::sort(out.begin(), out.end(), [](const MixedWhyNot& a, const MixedWhyNot& b) {
    return std::tuple(a.axis, a.value.size(), a.value) <
           std::tuple(b.axis, b.value.size(), b.value);
  });
  return out;
}

std::vector<MixedWhyNot> short_list(const std::vector<MixedWhyNot>& all) {
  std::vector<MixedWhyNot> chosen;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin, closest = begin;
    std::optional<size_t> miss;
    for (; end < all.size() && all[end].axis == all[begin].axis; ++end) {
      if (all[end].score < all[closest].score) closest = end;
      if (all[end].score == kInfinity && !miss) miss = end;
    }
    if (all[closest].score < kInfinity) chosen.push_back(all[closest]);
    if (miss) chosen.push_back(all[*miss]);
    begin = end;
  }
  return chosen;
}

std::string MixedWhyNotBook::why_no_ends() const {
  const auto& places = task_.open.job.cluster.datacenters;
  const layout::Parallelism& p = task_.open.job.parallelism;
  // Whether a stage of each pipeline has devices there, in some setting.
  const auto has_room = [&](size_t z) {
    return std::any_of(settings_.begin(), settings_.end(), [&](const MixedSetting& setting) {
      return PricedSetting(task_.open.job, task_.law, setting, task_.open.fixed.sequence_parallel)
                 .room(z) > 0;
    });
  };
  for (const auto& [key, names] : {std::pair("first_stage_in", &p.first_stage_in),
                                   std::pair("last_stage_in", &p.last_stage_in)}) {
    bool fits = names->empty();
    for (size_t z = 0; z < places.size() && !fits; ++z)
      fits = std::find(names->begin(), names->end(), places[z].name) != names->end() && has_room(z);
    if (!fits)
      return fmt::format("no datacenter of {} has devices for a stage of each pipeline", key);
  }
  return "no pipeline that begins and ends there, and does not return to a datacenter, fits into "
         "memory along links";
}

Error MixedWhyNotBook::infeasible() const {
  const std::string& file = task_.open.job.file;
  const layout::Parallelism& p = task_.open.job.parallelism;
  if (!plan::has_fixed_ends(p)) {
    return {ErrorCode::kInfeasible,
            fmt::format("{}: nothing fits: {}", file, miss(all_)),
            {},
            cost::less_prefill(task_.open.job) +
                "more devices or more memory, recompute = \"full\", or a smaller micro_batch"};
  }
  // What memory lacks in other places says nothing here.
  return {ErrorCode::kInfeasible,
          fmt::format("{}: nothing fits with {}: {}", file, plan::text_of_ends(p), why_no_ends()),
          {},
          "more datacenters for the first and the last stage, or more devices or memory there"};
}

}  // namespace tombolo::geo
