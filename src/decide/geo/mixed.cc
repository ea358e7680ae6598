#include "decide/geo/mixed.h"

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/parallel.h"
#include "decide/geo/mixed_bound.h"
#include "decide/geo/mixed_scout.h"
#include "decide/geo/mixed_search.h"
#include "decide/geo/mixed_why_not.h"
#include "decide/search/best_plan.h"
#include "predict/ledger/plan_ledger.h"
#include "spec/plan/pipeline_ends.h"

namespace tombolo::geo {
namespace {

constexpr int64_t kMicrobatchMax = 32;
constexpr size_t kDatacentersMax = 12;
constexpr size_t kWaveMax = 32;  // settings between two exchanges of the bar
constexpr size_t kScoutWave = 8;
// The first finds good plans, and the last looks at round trips where bounds are still apart.
constexpr Look kLooks[] = {{0.1}, {0.01}, {0.005, true}};

// Whether a way over links leads from where a pipeline may begin to where it may end.
Status check_ends_are_joined(const plan::OpenJob& open) {
  const plan::Job& job = open.job;
  const layout::Parallelism& p = job.parallelism;
  const bool one_place = std::any_of(
      job.cluster.datacenters.begin(), job.cluster.datacenters.end(), [&](const auto& each) {
        return plan::may_begin_in(p, each.name) && plan::may_end_in(p, each.name);
      });
  if (open.fixed.pipeline == 1 && !one_place) {
    return infeasible(fmt::format("{}: parallelism.pipeline = 1, and no datacenter is in both: {}",
                                  job.file, plan::text_of_ends(p)),
                      "a larger pipeline, or a datacenter that both name");
  }
  std::vector<std::string> reached;
  for (const cluster::Datacenter& each : job.cluster.datacenters) {
    if (plan::may_begin_in(p, each.name)) reached.push_back(each.name);
  }
  for (size_t i = 0; i < reached.size(); ++i) {
    if (plan::may_end_in(p, reached[i])) return {};
    for (const cluster::Datacenter& each : job.cluster.datacenters) {
      if (std::find(reached.begin(), reached.end(), each.name) != reached.end()) continue;
      if (job.cluster.link(reached[i], each.name)) reached.push_back(each.name);
    }
  }
  return infeasible(
      fmt::format("{}: parallelism: {}: no links lead from the first to the last stage", job.file,
                  plan::text_of_ends(p)),
      "a [[cluster.wan]] between them");
}

Status check_job(const plan::OpenJob& open, const MixedOptions& options) {
  const plan::Job& job = open.job;
  if (!job.model) {
    return unusable(fmt::format("{}: model is missing", job.file),
                    "[model] with preset = \"gpt3-175b\" or config = \"config.json\"");
  }
  for (const auto& [name, fixed] :
       {std::pair("context", open.fixed.context), std::pair("expert", open.fixed.expert),
        std::pair("virtual_stages", open.fixed.virtual_stages)}) {
    if (fixed.value_or(1) == 1) continue;
    return unusable(fmt::format("{}: parallelism.{} = {}: over several datacenters only tensor, "
                                "pipeline and data parallelism are searched",
                                job.file, name, *fixed),
                    fmt::format("{} = 1", name));
  }
  TRY(plan::check_pipelines_are_free(job));
  TRY(check_ends_are_joined(open));
  if (open.fixed.zero.value_or(0) > 1) {
    return unusable(fmt::format("{}: parallelism.zero = {}: over several datacenters there is a "
                                "pipeline, whose microbatches would sum sharded gradients each",
                                job.file, *open.fixed.zero),
                    "zero = 0 or 1");
  }
  if (job.cluster.datacenters.size() > kDatacentersMax) {
    return unusable(fmt::format("{}: cluster: {} datacenters; subsets of at most {} are searched",
                                job.file, job.cluster.datacenters.size(), kDatacentersMax),
                    "fewer datacenters, those with the slowest links left out");
  }
  if (options.objective == search::Objective::kCost) {
    for (const cluster::Datacenter& place : job.cluster.datacenters) {
      if (place.price.value > 0) continue;
      return unusable(fmt::format("{}: cluster: {} has no price, which the objective cost needs",
                                  job.file, place.name),
                      "price = \"2.10 USD/device-hour\"");
    }
  }
  return {};
}

std::vector<int64_t> divisors(int64_t n, int64_t most) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d <= std::min(n, most); ++d) {
    if (n % d == 0) out.push_back(d);
  }
  return out;
}

// Tensor parallelism for all devices of a kind; 0 stands for none that a datacenter can have.
std::vector<int64_t> tensors_of(const plan::OpenJob& open, const std::string& device) {
  if (open.fixed.tensor) return {*open.fixed.tensor};
  const model::Model& m = *open.job.model;
  int64_t domain = 1;
  for (const cluster::Datacenter& place : open.job.cluster.datacenters) {
    if (place.device.name == device) domain = std::max(domain, place.scale_up.domain);
  }
  const int64_t common = std::gcd(std::gcd(m.heads, m.kv_heads), std::gcd(m.hidden, m.sequence));
  return divisors(m.experts ? common : std::gcd(common, m.ffn), domain);
}

// One setting per way to give each kind of device its tensor parallelism.
std::vector<MixedSetting> tensor_choices(const plan::OpenJob& open) {
  const auto& places = open.job.cluster.datacenters;
  std::map<std::string, uint64_t> kinds;  // with their datacenters
  for (size_t z = 0; z < places.size(); ++z) kinds[places[z].device.name] |= uint64_t{1} << z;
  std::vector<MixedSetting> choices{{.tensor = std::vector<int64_t>(places.size(), 0)}};
  for (const auto& [device, where] : kinds) {
    const std::vector<int64_t> tensors = tensors_of(open, device);
    std::vector<MixedSetting> next;
    for (const MixedSetting& choice : choices) {
      for (const int64_t tensor : tensors) {
        next.push_back(choice);
        if (tensor != tensors.front()) next.back().must_use.push_back(where);
        for (size_t z = 0; z < places.size(); ++z) {
          const bool fits = tensor <= places[z].scale_up.domain && tensor <= places[z].devices();
          if ((where >> z & 1) && fits) next.back().tensor[z] = tensor;
        }
      }
    }
    choices = std::move(next);
  }
  return choices;
}

template <typename T>
std::vector<T> fixed_or(const std::optional<T>& fixed, std::vector<T> all) {
  return fixed ? std::vector<T>{*fixed} : all;
}

std::vector<MixedSetting> settings_of(const plan::OpenJob& open, bool tries_selective) {
  using model::Recompute;
  const int64_t batch = open.job.training.global_batch;
  std::vector<MixedSetting> settings;
  std::vector<Recompute> recomputes =
      fixed_or(open.fixed.recompute, {Recompute::kNone, Recompute::kSelective, Recompute::kFull});
  if (!tries_selective) std::erase(recomputes, Recompute::kSelective);
  for (MixedSetting setting : tensor_choices(open)) {
    for (const int64_t data :
         fixed_or(open.fixed.data, divisors(batch, open.job.cluster.devices()))) {
      if (batch % data != 0) continue;
      for (const int64_t micro_batch :
           fixed_or(open.fixed.micro_batch, divisors(batch / data, kMicrobatchMax))) {
        if (batch / data % micro_batch != 0) continue;
        for (const Recompute recompute : recomputes) {
          for (const int64_t zero : fixed_or(open.fixed.zero, {0, 1})) {
            if (zero > 0 && data == 1 && !open.fixed.zero) continue;
            setting.data = data;
            setting.micro_batch = micro_batch;
            setting.recompute = recompute;
            setting.zero = zero;
            settings.push_back(setting);
          }
        }
      }
    }
  }
  return settings;
}

MixedPlan plan_of(const plan::OpenJob& open, const MixedLaw& law, const MixedSplit& split) {
  PricedSetting priced(open.job, law, split.setting, open.fixed.sequence_parallel);
  const auto& places = open.job.cluster.datacenters;
  MixedPlan plan;
  plan.data = split.setting.data;
  plan.micro_batch = split.setting.micro_batch;
  plan.microbatches = priced.microbatches();
  plan.zero = split.setting.zero;
  plan.recompute = split.setting.recompute;
  const bool fp8 = open.job.training.precision == plan::Precision::kFp8;
  std::vector<cost::StagePass> passes;
  std::vector<cost::Hop> hops;
  std::vector<Seconds> ends;
  double rate = 0;
  bool names_prices = true;
  FlopsPerSecond peak;
  int64_t first = 0;
  const auto all = static_cast<int64_t>(split.partition.layers.size());
  for (size_t i = 0; i < split.order.size(); ++i) {
    const size_t z = split.order[i];
    if (i > 0) {
      const cluster::WanLink& link =
          *open.job.cluster.link(places[split.order[i - 1]].name, places[z].name);
      hops.push_back(priced.wan(link, split.order[i - 1], z));
      plan.egress += ledger::egress_of(link, priced.boundary(), plan.microbatches, plan.data);
    }
    for (int64_t j = 0; j < split.stages[i]; ++j) {
      const auto s = static_cast<int64_t>(passes.size());
      if (j > 0) hops.push_back(priced.inside(z));
      const int64_t layers = split.partition.layers[static_cast<size_t>(s)];
      const model::Slice slice{first, layers, s == 0, s + 1 == all};
      const cost::Configuration c = priced.configuration(z);
      const cost::StagePrice price = law.stage(z, c, slice);
      passes.push_back({price.forward, price.backward});
      ends.push_back(price.update + price.gradients);
      plan.sequence_parallel = plan.sequence_parallel || c.sequence_parallel;
      plan.stages.push_back({s, places[z].name, places[z].device.name, c.tensor,
                             plan.data * c.tensor, first, layers, price.forward, price.backward,
                             law.memory(z, c, slice, std::min(plan.microbatches, all - s)),
                             places[z].device.memory});
      plan.devices += plan.data * c.tensor;
      peak += cost::usable_peak(places[z].device, fp8) * real(plan.data * c.tensor);
      rate += priced.rate(z);
      names_prices = names_prices && places[z].price.value > 0;
      first += layers;
    }
  }
  plan.egress += ledger::tied_egress(open.job.cluster, plan.stages.front().datacenter,
                                     plan.stages.back().datacenter,
                                     plan::tied_bytes(open.job, *open.job.model), plan.data);
  ends.front() += priced.tied(split.order.front(), split.order.back());
  plan.time = cost::mixed_iteration(passes, hops, ends, plan.microbatches);
  const Seconds iteration = plan.time.iteration;
  if (names_prices) plan.price = Dollars{rate * iteration.value};
  plan.score = split.score;
  const int64_t batch = open.job.training.global_batch;
  plan.tokens_per_second = real(batch * open.job.model->sequence) / iteration.value;
  plan.mfu = cost::model_flops(*open.job.model, batch) / (peak * iteration);
  return plan;
}

struct Finalist {
  MixedPlan plan;
  MixedSplit split;
  std::optional<Seconds> simulated = {};
};

// What follows from the time, for one that is `longer` than plan_of's.
void take_time(search::Objective objective, double longer, MixedPlan& plan) {
  if (plan.price) plan.price = *plan.price * longer;
  plan.tokens_per_second /= longer;
  plan.mfu /= longer;
  const bool by_cost = objective == search::Objective::kCost && plan.cost();
  plan.score = by_cost ? plan.cost()->value : plan.iteration().value;
}

search::FinalCounts hold_finals_of(const MixedTask& task, std::vector<Finalist>& finalists) {
  const search::Objective objective = task.options.objective;
  std::vector<plan::Job> jobs;
  for (Finalist& each : finalists) {
    jobs.push_back(with_plan(task.open.job, each.plan));
    const std::optional<cost::MixedIteration> on_nodes = task.law.iteration(jobs.back());
    if (!on_nodes) continue;
    const double longer = on_nodes->iteration / each.plan.time.iteration;
    each.plan.time = *on_nodes;
    take_time(objective, longer, each.plan);
  }
  const auto times = search::simulate_finals(task.options.finals, jobs, task.options.threads);
  for (size_t i = 0; i < times.size(); ++i) {
    if (!times[i]) continue;
    MixedPlan& plan = finalists[i].plan;
    plan.simulated = times[i];
    take_time(objective, *times[i] / plan.time.iteration, plan);
  }
  return search::hold_finals(
      times, finalists, [](const Finalist& each) { return each.plan.time.iteration; },
      [](const Finalist& a, const Finalist& b) { return a.plan.score < b.plan.score; });
}

bool more_promising(const Prospect& a, const Prospect& b) {
  return std::pair(a.least, a.setting) < std::pair(b.least, b.setting);
}

// All settings, most promising first. Nothing is known of those that are left when the search is stopped.
std::vector<Prospect> by_promise(const MixedTask& task, const std::vector<MixedSetting>& settings,
                                 SetSizes sizes) {
  std::vector<Prospect> promises(settings.size());
  parallel_for(settings.size(), task.options.threads, [&](size_t i) {
    promises[i].setting = i;
    if (task.options.stop && task.options.stop()) return;
    PricedSetting priced(task.open.job, task.law, settings[i], task.open.fixed.sequence_parallel);
    promises[i].least = setting_bound(task, priced, sizes);
  });
  std::sort(promises.begin(), promises.end(), more_promising);
  return promises;
}

// Subsets of one datacenter come first, of all settings: they are few, there is an answer soon, and by
// cost, where a few devices often do best, it cuts most of what follows.
std::vector<SetSizes> passes_over(size_t datacenters) {
  std::vector<SetSizes> passes{{1, 1}};
  if (datacenters > 1) passes.push_back({2, datacenters});
  return passes;
}

class MixedSearch {
 public:
  MixedSearch(const MixedTask& task, const std::vector<MixedSetting>& settings)
      : task_(task), settings_(settings), book_(task, settings), fates_(settings.size()) {}

  void run() {
    const std::vector<SetSizes> passes = passes_over(task_.open.job.cluster.datacenters.size());
    all_ = static_cast<int64_t>(passes.size() * settings_.size());
    for (const SetSizes sizes : passes) {
      std::vector<Prospect> promises = by_promise(task_, settings_, sizes);
      if (sizes.least > 1) scout_all(sizes, promises);
      search(sizes, promises);
    }
    result.settings = std::ssize(settings_);
    result.settings_cut = std::count(fates_.begin(), fates_.end(), Fate::kCut);
    if (!top.empty()) result.gap = std::max(0.0, 1 - not_looked_at_ / top.front().score);
  }

  const MixedWhyNotBook& book() const { return book_; }
  std::vector<MixedSplit> top;  // best first
  MixedResult result;           // but for its plans

 private:
  double bar() const {
    return top.size() == static_cast<size_t>(task_.options.top)
               ? top.back().score
               : std::numeric_limits<double>::infinity();
  }

  bool asked_to_stop() const { return task_.options.stop && task_.options.stop(); }

  // Good plans and better bounds first, by time: closer and closer looks at all that may still win.
  void scout_all(SetSizes sizes, std::vector<Prospect>& prospects) {
    if (task_.options.objective == search::Objective::kCost || !task_.options.prune ||
        task_.open.job.cluster.datacenters.size() < task_.options.scouted_from) {
      return;
    }
    for (const Look& look : kLooks) {
      for (size_t begin = 0; begin < prospects.size(); begin += kScoutWave) {
        const double bar =
            top.empty() ? std::numeric_limits<double>::infinity() : top.front().score;
        const size_t end = std::min(begin + kScoutWave, prospects.size());
        std::vector<MixedFindings> findings(end - begin);
        parallel_for(findings.size(), task_.options.threads, [&](size_t i) {
          Prospect& prospect = prospects[begin + i];
          if (prospect.least >= bar || asked_to_stop()) return;
          findings[i] = scout(task_, settings_[prospect.setting], sizes, bar, look, prospect);
        });
        for (size_t i = 0; i < findings.size(); ++i)
          keep(prospects[begin + i].setting, findings[i]);
        if (asked_to_stop()) break;
      }
      std::sort(prospects.begin(), prospects.end(), more_promising);
    }
  }

  void search(SetSizes sizes, const std::vector<Prospect>& promises) {
    size_t wave = 1;
    for (size_t begin = 0; begin < promises.size();) {
      if (result.stopped || asked_to_stop()) return leave_out(promises, begin);
      if (task_.options.progress) task_.options.progress(done_, all_);
      const size_t end = std::min(begin + wave, promises.size());
      search(sizes, std::span(promises).subspan(begin, end - begin));
      done_ += static_cast<int64_t>(end - begin);
      begin = end;
      wave = std::min(kWaveMax, wave * 2);
    }
  }

  // Side by side, against what the waves before have found.
  void search(SetSizes sizes, std::span<const Prospect> wave) {
    const double bar = this->bar();
    std::vector<MixedFindings> findings(wave.size());
    parallel_for(wave.size(), task_.options.threads, [&](size_t i) {
      const double promise = wave[i].least;
      const size_t setting = wave[i].setting;
      // An infinite promise: memory or devices do not suffice; the search says how far they go.
      const bool fits = promise < std::numeric_limits<double>::infinity();
      if (fits && task_.options.prune && promise > bar * (1 + kRounding)) {
        findings[i].all.cut = promise;
      } else {
        findings[i] = search_setting(task_, settings_[setting], sizes, bar);
      }
    });
    for (size_t i = 0; i < findings.size(); ++i) take(wave[i], findings[i]);
  }

  void take(const Prospect& promise, MixedFindings& found) {
    const bool is_cut = found.with.empty() && found.all.cut == promise.least;
    Fate& fate = fates_[promise.setting];
    if (promise.least < std::numeric_limits<double>::infinity() && fate != Fate::kSearched)
      fate = is_cut ? Fate::kCut : Fate::kSearched;
    if (found.stopped) {
      result.stopped = true;
      not_looked_at_ = std::min(not_looked_at_, promise.least);
      found.all.cut = std::min(found.all.cut, promise.least);
      for (MixedOutlook& each : found.with) each.cut = std::min(each.cut, promise.least);
    }
    keep(promise.setting, found);
  }

  void keep(size_t setting, const MixedFindings& found) {
    if (found.with.empty() && found.all.cut == kInfinity) return;  // was not looked at
    book_.add(setting, found);
    result.evaluated += found.evaluated;
    result.feasible += found.feasible;
    for (const MixedSplit& split : found.top) keep(split);
  }

  // One of each setting and order.
  void keep(const MixedSplit& split) {
    const auto same = std::find_if(top.begin(), top.end(), [&](const MixedSplit& other) {
      return other.order == split.order && other.setting == split.setting;
    });
    if (same != top.end()) {
      if (!better_split(split, *same)) return;
      top.erase(same);
    }
    top.insert(std::upper_bound(top.begin(), top.end(), split, better_split), split);
    if (top.size() > static_cast<size_t>(task_.options.top)) top.pop_back();
  }

  void leave_out(const std::vector<Prospect>& promises, size_t begin) {
    result.stopped = true;
    for (size_t i = begin; i < promises.size(); ++i) {
      MixedFindings none;
      none.all.cut = promises[i].least;
      book_.add(promises[i].setting, none);
      fates_[promises[i].setting] = Fate::kSearched;
      not_looked_at_ = std::min(not_looked_at_, promises[i].least);
    }
  }

  const MixedTask& task_;
  const std::vector<MixedSetting>& settings_;
  MixedWhyNotBook book_;
  // Of a setting: nothing fits, all that fits was cut by bounds, or some of it was searched.
  enum class Fate { kDoesNotFit, kCut, kSearched };
  std::vector<Fate> fates_;
  int64_t done_ = 0, all_ = 0;
  // The least that a plan may score of those that a stopped search left out.
  double not_looked_at_ = std::numeric_limits<double>::infinity();
};

}  // namespace

plan::Job with_plan(plan::Job job, const MixedPlan& plan) {
  CHECK(!plan.stages.empty(), "a plan without a stage");
  layout::Parallelism& p = job.parallelism;
  layout::Parallelism found;
  found.first_stage_in = p.first_stage_in;
  found.last_stage_in = p.last_stage_in;
  p = std::move(found);
  p.tensor = plan.stages.front().tensor;
  bool unlike = false;
  for (const MixedStage& stage : plan.stages) {
    unlike = unlike || stage.tensor != p.tensor;
    p.tensor_per_stage.push_back(stage.tensor);
    p.layers_per_stage.push_back(stage.layers);
    p.datacenter_per_stage.push_back({stage.datacenter});
  }
  if (!unlike) p.tensor_per_stage.clear();
  p.pipeline = static_cast<int64_t>(plan.stages.size());
  p.data = plan.data;
  p.zero = plan.zero;
  p.sequence_parallel = plan.sequence_parallel;
  job.training.micro_batch = plan.micro_batch;
  job.training.recompute = plan.recompute;
  return job;
}

namespace {

// The order of a file means nothing, and equal plans go to the datacenters that come first: cheaper
// ones, and then by name.
plan::OpenJob in_order(plan::OpenJob open) {
  const auto key = [](const cluster::Datacenter& place) {
    return std::tuple(place.price.value <= 0, place.price.value, place.name);
  };
  std::vector<cluster::Datacenter>& places = open.job.cluster.datacenters;
  std::sort(places.begin(), places.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return open;
}

}  // namespace

Result<MixedResult> search_mixed(const plan::OpenJob& given, const MixedOptions& options) {
  TRY(check_job(given, options));
  const plan::OpenJob open = in_order(given);
  const std::unique_ptr<MixedLaw> law = TRY(tombolo_mixed_law(open.job));
  return search_mixed(open, *law, options);
}

Result<MixedResult> search_mixed(const plan::OpenJob& open, const MixedLaw& law,
                                 const MixedOptions& asked) {
  CHECK(asked.top >= 1 && asked.threads >= 1, "top {}, threads {}", asked.top, asked.threads);
  TRY(check_job(open, asked));
  MixedOptions options = asked;
  options.top = asked.finals.searched(asked.top);
  const MixedTask task{open, law, options};
  const bool tries_selective = open.fixed.recompute || law.selective_recompute_differs();
  const std::vector<MixedSetting> settings = settings_of(open, tries_selective);
  if (settings.empty()) {
    return unusable(
        fmt::format("{}: training.global_batch = {}: no microbatch and number of "
                    "pipelines divide it",
                    open.job.file, open.job.training.global_batch));
  }
  MixedSearch search(task, settings);
  search.run();
  MixedResult result = std::move(search.result);
  if (search.top.empty() && result.stopped)
    return failed(open.job.file + ": stopped before a plan was found", "a longer --time-limit");
  if (search.top.empty()) return fail(search.book().infeasible());
  std::vector<Finalist> finalists;
  for (const MixedSplit& split : search.top)
    finalists.push_back({plan_of(open, law, split), split});
  result.finals = hold_finals_of(task, finalists);
  result.why_not = search.book().why_not(finalists.front().split);
  for (size_t i = 0; i < finalists.size() && i < static_cast<size_t>(asked.top); ++i) {
    result.top.push_back(std::move(finalists[i].plan));
  }
  result.notes = open.job.notes;
  if (!tries_selective) result.notes.emplace_back(search::kSelectiveIsNotTried);
  const layout::Parallelism& given = open.job.parallelism;
  const std::vector<std::string> ignored =
      search::notes_over_datacenters(given, /*tries_virtual_stages*/ false);
  result.notes.insert(result.notes.end(), ignored.begin(), ignored.end());
  if (const std::string& order = given.order; order != layout::Parallelism{}.order)
    result.notes.push_back(
        fmt::format("parallelism.order = \"{}\" has no effect: over several datacenters no other "
                    "than \"{}\" is searched",
                    order, layout::Parallelism{}.order));
  if (!result.top.empty()) {
    const std::vector<MixedStage>& stages = result.top.front().stages;
    const std::string note = ledger::note_on_tied_ends(open.job.cluster, stages.front().datacenter,
                                                       stages.back().datacenter,
                                                       plan::tied_bytes(open.job, *open.job.model));
    if (!note.empty()) result.notes.push_back(note);
  }
  if (open.job.model->experts) {
    result.notes.push_back(
        "over several datacenters each device holds all experts of its layers: "
        "expert parallelism is not searched there");
  }
  return result;
}

}  // namespace tombolo::geo
