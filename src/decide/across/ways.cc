#include "decide/across/ways.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "base/interruption.h"
#include "base/parallel.h"
#include "decide/across/break_even.h"
#include "decide/across/promise.h"
#include "decide/across/way_order.h"
#include "decide/geo/mixed.h"
#include "decide/search/best_plan.h"
#include "decide/search/space.h"
#include "predict/cost/memory_remedy.h"
#include "predict/cost/price_plan.h"
#include "predict/cost/worth.h"
#include "predict/sim/simulate.h"
#include "spec/model/model.h"
#include "spec/plan/pipeline_ends.h"
#include "spec/schedule/schedule.h"

namespace tombolo::across {
namespace {

using plan::Exchange;
using plan::ExchangeMode;

// A job to simulate, and what it is called.
struct Candidate {
  WayKind kind = WayKind::kAlone;
  std::string name;
  plan::Job job;
  std::optional<Seconds> closed_form;  // where a search has said it
};

// The datacenters of these indices, and the links between them.
cluster::Cluster part_of(const cluster::Cluster& cluster, const std::vector<size_t>& indices) {
  cluster::Cluster part = cluster;
  part.datacenters.clear();
  std::set<std::string> names;
  for (const size_t i : indices) {
    part.datacenters.push_back(cluster.datacenters[i]);
    names.insert(cluster.datacenters[i].name);
  }
  std::erase_if(part.wan, [&](const cluster::WanLink& link) {
    return !names.contains(link.between[0]) || !names.contains(link.between[1]);
  });
  return part;
}

std::vector<std::vector<size_t>> subsets_of(size_t count) {
  std::vector<std::vector<size_t>> out;
  if (count > kSubsetsOf) {
    for (size_t left_out = 0; left_out <= count; ++left_out) {
      out.emplace_back();
      for (size_t i = 0; i < count; ++i)
        if (i != left_out) out.back().push_back(i);
    }
    return out;
  }
  for (uint64_t set = 1; set < uint64_t{1} << count; ++set) {
    std::vector<size_t> members;
    for (size_t i = 0; i < count; ++i)
      if (set >> i & 1) members.push_back(i);
    if (members.size() > 1) out.push_back(std::move(members));
  }
  return out;
}

// Whether each pair has a link: gradients go around all datacenters, or from each to each.
bool all_joined(const cluster::Cluster& cluster) {
  for (size_t a = 0; a < cluster.datacenters.size(); ++a) {
    for (size_t b = a + 1; b < cluster.datacenters.size(); ++b) {
      if (!cluster.link(cluster.datacenters[a].name, cluster.datacenters[b].name)) return false;
    }
  }
  return true;
}

bool is_alike(const cluster::Cluster& cluster) {
  return std::all_of(cluster.datacenters.begin(), cluster.datacenters.end(), [&](const auto& each) {
    return each.device.name == cluster.datacenters[0].device.name;
  });
}

// The layout of one datacenter in each of the subset, as many pipelines as its devices hold.
std::optional<plan::Job> at_home(const plan::Job& job, const plan::Job& layout,
                                 const std::vector<size_t>& subset) {
  plan::Job out = job;
  out.cluster = part_of(job.cluster, subset);
  out.parallelism = layout.parallelism;
  out.training = layout.training;
  out.training.global_batch = job.training.global_batch;
  layout::Parallelism& p = out.parallelism;
  const int64_t devices = p.tensor * p.context * p.pipeline;
  p.datacenter_per_replica.clear();
  for (const cluster::Datacenter& each : out.cluster.datacenters) {
    const int64_t held = each.devices() / devices;
    if (held == 0) return std::nullopt;
    p.datacenter_per_replica.insert(p.datacenter_per_replica.end(), static_cast<size_t>(held),
                                    each.name);
  }
  p.data = std::ssize(p.datacenter_per_replica);
  if (p.data < p.expert / p.context) return std::nullopt;
  p.datacenter_per_stage.clear();
  p.first_stage_in = job.parallelism.first_stage_in;
  p.last_stage_in = job.parallelism.last_stage_in;
  plan::restrict_ends(p, out.cluster);
  const int64_t microbatches = job.training.global_batch / out.training.micro_batch;
  if (microbatches < p.data) return std::nullopt;
  p.microbatches_by_speed = !is_alike(out.cluster) || microbatches % p.data != 0;
  return out;
}

class Search {
 public:
  Search(const plan::OpenJob& open, const WaysOptions& options) : open_(open), options_(options) {}

  Result<Ways> run() {
    TRY(check());
    ways_.notes = open_.job.notes;
    for (std::string& note :
         search::notes_over_datacenters(open_.job.parallelism, /*tries_virtual_stages*/ true))
      ways_.notes.push_back(std::move(note));
    for (const cluster::WanLink& link : open_.job.cluster.wan) note_without_path_limit(link);
    alone();
    simulate();
    stages();
    simulate();
    homes(false);
    simulate();
    homes(true);  // of the layouts that were good in other modes
    simulate();
    rank();
    if (ways_.ways.empty()) return no_way();
    find_break_even();
    return std::move(ways_);
  }

 private:
  bool stopped() {
    ways_.stopped = ways_.stopped || (options_.stop && options_.stop());
    return ways_.stopped;
  }

  // One line between two sites is easily taken for what each pair of nodes has.
  void note_without_path_limit(const cluster::WanLink& link) {
    const cluster::Datacenter* from = open_.job.cluster.find(link.between[0]);
    const cluster::Datacenter* to = open_.job.cluster.find(link.between[1]);
    if (link.path_limit || !from || !to) return;
    const int64_t pairs = std::min(from->nodes, to->nodes);
    if (pairs < 2) return;
    ways_.notes.push_back(fmt::format(
        "{} - {}: no path_limit, so {} pairs of nodes may carry {} together", link.between[0],
        link.between[1], pairs, brief(link.node_pair_limit * static_cast<double>(pairs))));
  }

  Status check() const {
    if (!open_.job.model)
      return unusable(fmt::format("{}: has no [model], whose layouts are compared", open_.job.file),
                      "a [model]");
    if (open_.job.cluster.datacenters.size() < 2)
      return unusable(
          fmt::format("{}: --across compares ways between datacenters; the cluster has one",
                      open_.job.file),
          "tombolo plan without --across, or a second [[cluster.datacenter]]");
    if (!open_.job.parallelism.datacenter_per_replica.empty() ||
        !open_.job.parallelism.datacenter_per_stage.empty())
      return unusable(fmt::format("{}: [parallelism] says where pipelines lie, which --across asks",
                                  open_.job.file),
                      "leaving out datacenter_per_stage and datacenter_per_replica");
    return {};
  }

  // What did not fit says more than what cannot be said.
  void miss(const std::string& name, const Error& error) {
    std::string reason = error.message;
    const std::string prefix = open_.job.file + ": ";
    if (reason.starts_with(prefix)) reason.erase(0, prefix.size());
    reason = reason.substr(0, reason.find('\n'));
    const bool closer = error.code == ErrorCode::kInfeasible && did_not_fit_.insert(name).second;
    if (closer) {
      misses_.insert_or_assign(name, std::move(reason));
    } else {
      misses_.try_emplace(name, std::move(reason));
    }
  }

  void add(WayKind kind, std::string name, plan::Job job,
           std::optional<Seconds> closed_form = std::nullopt) {
    candidates_.push_back({kind, std::move(name), std::move(job), closed_form});
  }

  // The job in some of its datacenters, its pipelines on their own; nothing where [parallelism] says that
  // none may begin, or end, in any of them.
  std::optional<plan::OpenJob> in_part(const std::vector<size_t>& subset) const {
    plan::OpenJob part = open_;
    part.job.cluster = part_of(open_.job.cluster, subset);
    part.job.exchange.reset();
    if (!plan::restrict_ends(part.job.parallelism, part.job.cluster)) return std::nullopt;
    return part;
  }
  // Whole pipelines, in each of them.
  bool may_hold_pipelines(const std::vector<size_t>& subset) const {
    return std::all_of(subset.begin(), subset.end(), [&](size_t i) {
      const std::string& name = open_.job.cluster.datacenters[i].name;
      return plan::may_begin_in(open_.job.parallelism, name) &&
             plan::may_end_in(open_.job.parallelism, name);
    });
  }
  std::string why_not_whole(std::string_view where) const {
    return fmt::format("parallelism: {}: no pipeline may both begin and end {}",
                       plan::text_of_ends(open_.job.parallelism), where);
  }

  void alone() {
    const cluster::Cluster& cluster = open_.job.cluster;
    const size_t count = cluster.datacenters.size();
    std::vector<std::optional<Result<search::BestPlan>>> found(count);
    parallel_for(count, options_.threads, [&](size_t i) {
      const std::optional<plan::OpenJob> one = in_part({i});
      if (one) found[i] = best_layouts(*one, options_.objective);
    });
    for (size_t i = 0; i < count; ++i) {
      const std::string name = cluster.datacenters[i].name + " alone";
      if (!found[i]) {
        misses_.insert_or_assign(name, why_not_whole("there"));
        continue;
      }
      if (!*found[i]) {
        miss(name, found[i]->error());
        continue;
      }
      for (const search::RankedPlan& plan : (*found[i])->top)
        add(WayKind::kAlone, name, plan.job, plan.candidate.time);
    }
  }

  // Those of each datacenter for one of `parts` parts of the batch.
  const std::vector<std::vector<plan::Job>>& layouts_for(int64_t parts) {
    const auto [at, is_new] = layouts_.try_emplace(parts);
    std::vector<std::vector<plan::Job>>& layouts = at->second;
    if (!is_new) return layouts;
    const int64_t batch = open_.job.training.global_batch;
    const int64_t part = batch % parts == 0 ? batch / parts : batch;
    layouts.resize(open_.job.cluster.datacenters.size());
    parallel_for(layouts.size(), options_.threads, [&](size_t i) {
      const std::optional<plan::OpenJob> alone = in_part({i});
      if (!alone) return;
      // With replicas elsewhere neither sequences nor gradients are sharded (docs/laws/zero.md).
      for (const int64_t zero : {0, 1}) {
        if (open_.fixed.zero.value_or(zero) != zero || open_.fixed.context.value_or(1) > 1)
          continue;
        plan::OpenJob one = *alone;
        one.job.training.global_batch = part;
        one.fixed.zero = zero;
        one.fixed.context = 1;
        one.fixed.data.reset();  // is of all datacenters together
        // The cheapest ones may have no memory for what an exchange keeps.
        for (const search::Objective objective :
             std::set{options_.objective, search::Objective::kTime}) {
          const auto found = best_layouts(one, objective);
          if (!found) continue;
          for (const search::RankedPlan& plan : found->top) layouts[i].push_back(plan.job);
        }
        // Another shape may send less, or over more links at once; smaller microbatches are divided better.
        const auto shapes = search::best_of_each_shape(one, layouts_of(options_.objective));
        if (shapes) layouts[i].insert(layouts[i].end(), shapes->begin(), shapes->end());
      }
    });
    return layouts;
  }

  // The layouts of each of the subset, in all of it. Pipelines elsewhere leave a datacenter its part of
  // the batch: a half of it, a quarter, and so on, so that what divides the batch divides the part. Where
  // speeds differ, so that parts do, also those for small parts: their microbatches can be divided.
  std::vector<plan::Job> jobs_of(const std::vector<size_t>& subset, const cluster::Cluster& part) {
    std::vector<int64_t> parts{static_cast<int64_t>(std::bit_ceil(subset.size()))};
    if (!is_alike(part)) parts.push_back(4 * parts.front());
    std::vector<plan::Job> jobs;
    for (const int64_t each : parts) {
      for (const size_t i : subset) {
        for (const plan::Job& layout : layouts_for(each)[i]) {
          std::optional<plan::Job> job = at_home(open_.job, layout, subset);
          if (job && job->parallelism.data != open_.fixed.data.value_or(job->parallelism.data))
            continue;
          const bool is_new = job && std::none_of(jobs.begin(), jobs.end(), [&](const auto& other) {
                                return is_twin(other, *job);
                              });
          if (is_new) jobs.push_back(std::move(*job));
        }
      }
    }
    return jobs;
  }

  search::BestPlanOptions layouts_of(search::Objective objective) const {
    return {.objective = objective,
            .top = options_.layouts,
            .threads = 1,
            .with_band = false,
            .finals = {},
            .limits = {},
            .progress = {}};
  }
  Result<search::BestPlan> best_layouts(const plan::OpenJob& open,
                                        search::Objective objective) const {
    return search::best_plan(open, layouts_of(objective));
  }

  // Each subset on its own, so that nothing is slower than with a datacenter left out. Of many datacenters
  // all at once: the search leaves out those that it has no use for.
  void stages() {
    const std::string name = "stages across";
    std::vector<std::vector<size_t>> subsets = subsets_of(open_.job.cluster.datacenters.size());
    if (open_.job.cluster.datacenters.size() > kSubsetsOf) {
      std::erase_if(subsets, [&](const std::vector<size_t>& subset) {
        return subset.size() < open_.job.cluster.datacenters.size();
      });
    }
    for (const std::vector<size_t>& subset : subsets) {
      const std::optional<plan::OpenJob> several = in_part(subset);
      if (!several) continue;  // one that has both ends says more
      if (stopped()) {
        misses_.insert_or_assign(name, "stopped before it was searched");
      } else if (several->job.cluster.wan.empty()) {
        misses_.try_emplace(name, "no WAN link joins two datacenters");
      } else {
        stages_of(*several, name);
      }
    }
  }
  void stages_of(const plan::OpenJob& several, const std::string& name) {
    for (const int top : kMixedTops) {
      const auto found = geo::search_mixed(
          several, {.objective = options_.objective,
                    .top = top,
                    .threads = options_.threads,
                    .finals = {},
                    .progress = {},
                    .stop = options_.stop_stages ? options_.stop_stages : options_.stop});
      const bool ended =
          found ? found->stopped : found.error().code == ErrorCode::kFailed;  // with none so far
      ways_.stages_stopped = ways_.stages_stopped || ended;
      if (!found) return miss(name, found.error());
      int added = 0;
      for (const geo::MixedPlan& plan : found->top) {
        std::set<std::string> used;
        for (const geo::MixedStage& stage : plan.stages) used.insert(stage.datacenter);
        if (used.size() < 2 || ++added > options_.layouts) continue;
        add(WayKind::kStages, name, geo::with_plan(several.job, plan), plan.time.iteration);
      }
      if (added > 0 || found->stopped) return;
    }
    misses_.try_emplace(name,
                        fmt::format("the {} best plans of the closed form stay in one datacenter",
                                    kMixedTops.back()));
  }

  // Those that have memory for what an exchange keeps; all, where none has.
  std::vector<plan::Job> fitting(const std::vector<plan::Job>& jobs,
                                 const Exchange& exchange) const {
    std::vector<char> fits(jobs.size());
    parallel_for(jobs.size(), options_.threads, [&](size_t i) {
      if (options_.stop && options_.stop()) return;
      plan::Job job = jobs[i];
      job.exchange = exchange;
      const auto plan = cost::make_plan(job);
      const auto schedule = plan ? schedule::build(*plan) : tl::unexpected(plan.error());
      fits[i] = schedule && schedule::check_memory(*plan, *schedule);
    });
    std::vector<plan::Job> out;
    for (size_t i = 0; i < jobs.size(); ++i)
      if (fits[i]) out.push_back(jobs[i]);
    return out.empty() ? jobs : out;
  }

  // Of a subset's jobs, for local steps: those that were best in the modes played so far, and those that
  // are best in a datacenter alone, which is what local steps come near to. None that shards the
  // optimizer's state, which local steps refuse, if there is another.
  std::vector<plan::Job> best_of(const std::vector<plan::Job>& jobs,
                                 const std::vector<std::string>& names) const {
    std::vector<plan::Job> whole;
    std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(whole),
                 [](const plan::Job& job) { return job.parallelism.zero == 0; });
    if (whole.empty()) return jobs;
    std::vector<const Way*> played;
    for (const Way& way : played_) {
      if (way.kind == WayKind::kHomes && way.datacenters == names) played.push_back(&way);
    }
    std::sort(played.begin(), played.end(),
              [](const Way* a, const Way* b) { return a->iteration < b->iteration; });
    std::vector<plan::Job> out;
    const auto take = [&](const plan::Job& job, size_t most) {
      const bool is_new = std::none_of(out.begin(), out.end(),
                                       [&](const plan::Job& other) { return is_twin(other, job); });
      if (is_new && out.size() < most) out.push_back(job);
    };
    for (const Way* way : played) {
      for (const plan::Job& job : whole)
        if (is_twin(job, way->job)) take(job, kLocalLayouts);
    }
    for (const plan::Job& job : whole) take(job, 2 * kLocalLayouts);
    return out;
  }

  // But for how the batch is divided, which is found when a Plan is made.
  static bool is_twin(const plan::Job& a, const plan::Job& b) {
    const auto key = [](const plan::Job& job) {
      layout::Parallelism p = job.parallelism;
      p.microbatches_per_replica.clear();
      p.microbatches_by_speed = false;
      return p;
    };
    return a.training == b.training && key(a) == key(b);
  }

  std::string why_no_pipeline() const {
    for (const auto& [key, value, most] :
         {std::tuple("zero", open_.fixed.zero, 1), std::tuple("context", open_.fixed.context, 1)}) {
      if (value && *value > most)
        return fmt::format("parallelism.{} = {}: at most {} with replicas in several datacenters",
                           key, *value, most);
    }
    return "no pipeline fits in each datacenter, as [parallelism] and the batch want it";
  }

  // The job's own settings may differ from others in what exchange_text does not say.
  std::string name_of(const Exchange& exchange, const std::vector<Exchange>& grid) const {
    const std::string text = exchange_text(exchange);
    const bool own = open_.job.exchange && exchange == *open_.job.exchange;
    const auto alike = std::count_if(grid.begin(), grid.end(), [&](const Exchange& other) {
      return exchange_text(other) == text;
    });
    return own && alike > 1 ? text + ", as in [exchange]" : text;
  }

  void homes(bool local) {
    const std::vector<Exchange> grid = exchange_grid(open_.job.exchange, options_.local_steps);
    std::vector<std::vector<size_t>> subsets = subsets_of(open_.job.cluster.datacenters.size());
    std::erase_if(subsets, [&](const auto& subset) { return !may_hold_pipelines(subset); });
    if (subsets.empty())
      misses_.try_emplace("gradients across", why_not_whole("in each of two datacenters"));
    for (const std::vector<size_t>& subset : subsets) {
      const cluster::Cluster part = part_of(open_.job.cluster, subset);
      const bool joined = all_joined(part);
      std::vector<std::string> names;
      for (const cluster::Datacenter& each : part.datacenters) names.push_back(each.name);
      std::sort(names.begin(), names.end());
      const bool in_time = !stopped();
      const std::vector<plan::Job> all = in_time ? jobs_of(subset, part) : std::vector<plan::Job>{};
      for (const Exchange& exchange : grid) {
        if (exchange.is_local() != local) continue;
        const std::string name = "gradients across, " + name_of(exchange, grid);
        if (!in_time) {
          misses_.try_emplace(name, "stopped before it was searched");
          continue;
        }
        if (!joined) {
          misses_.try_emplace(
              name, fmt::format("no WAN link joins each two of {}", fmt::join(names, ", ")));
          continue;
        }
        if (all.empty()) misses_.try_emplace(name, why_no_pipeline());
        const std::vector<plan::Job> jobs = local ? best_of(fitting(all, exchange), names) : all;
        for (plan::Job job : jobs) {
          job.exchange = exchange;
          add(WayKind::kHomes, name, std::move(job));
        }
      }
    }
  }

  // What was added since the last time.
  void simulate() {
    drop_unpriced();
    double passes = 0;
    for (const Promise& promise : promises_) passes += promise.passes;
    std::vector<size_t> all(candidates_.size());
    std::iota(all.begin(), all.end(), size_t{0});
    done_ = 0;
    if (passes <= options_.simulate_all.value * sim::kPassesPerSecond) {
      simulate(all);
    } else {
      std::vector<std::string> names;
      for (const Candidate& each : candidates_) names.push_back(each.name);
      Contest contest(std::move(names), promises_);
      for (auto next = contest.next(); !next.empty(); next = contest.next())
        simulate(next, &contest);
      ways_.left_out += contest.left_out();
    }
    candidates_.clear();
  }

  // Keeps those of which a Plan can be made.
  void drop_unpriced() {
    std::vector<std::optional<Result<Promise>>> promises(candidates_.size());
    parallel_for(promises.size(), options_.threads, [&](size_t i) {
      if (options_.stop && options_.stop()) return;
      const Candidate& each = candidates_[i];
      promises[i] = unless(options_.stop_simulations, [&] {
        return promise_of(each.job, each.closed_form, options_.objective);
      });
    });
    std::vector<Candidate> kept;
    promises_.clear();
    for (size_t i = 0; i < promises.size(); ++i) {
      if (!promises[i]) {
        ways_.stopped = true;
        misses_.try_emplace(candidates_[i].name, "stopped before it was simulated");
      } else if (!*promises[i]) {
        miss(candidates_[i].name, promises[i]->error());
      } else if (const double passes = (*promises[i])->passes; passes > kMostPasses) {
        ++ways_.too_large;
        misses_.try_emplace(
            candidates_[i].name,
            fmt::format(
                "{:.2g} million passes of a microbatch to simulate; compared are up to {:.2g}",
                passes / 1e6, kMostPasses / 1e6));
      } else {
        kept.push_back(std::move(candidates_[i]));
        promises_.push_back(**promises[i]);
      }
    }
    candidates_ = std::move(kept);
  }

  // Those of many passes one after the other: they take some kB of memory for each.
  void simulate(const std::vector<size_t>& which, Contest* contest = nullptr) {
    std::vector<std::optional<Result<Way>>> all(which.size());
    std::mutex mutex;
    const auto play = [&](size_t i) {
      if (options_.stop && options_.stop()) return;
      const Candidate& each = candidates_[which[i]];
      all[i] = unless(options_.stop_simulations,
                      [&] { return way_of(each.kind, each.name, each.job, options_); });
      const std::lock_guard lock(mutex);
      ++done_;
      if (options_.progress) options_.progress(done_, std::ssize(candidates_));
    };
    const auto is_large = [&](size_t i) { return promises_[which[i]].passes > kLargePasses; };
    parallel_for(which.size(), options_.threads, [&](size_t i) {
      if (!is_large(i)) play(i);
    });
    for (size_t i = 0; i < which.size(); ++i) {
      if (!is_large(i)) continue;
      malloc_trim(0);  // what threads keep of simulations before
      play(i);
    }
    for (size_t i = 0; i < which.size(); ++i) {
      const std::string& name = candidates_[which[i]].name;
      if (!all[i]) {
        ways_.stopped = true;
        misses_.try_emplace(name, "stopped before it was simulated");
      } else if (*all[i]) {
        ++ways_.simulated;
        if (contest) contest->take(which[i], per_iteration(**all[i]));
        played_.push_back(std::move(**all[i]));
      } else {
        miss(name, all[i]->error());
      }
    }
  }

  // What a Promise says of it.
  double per_iteration(const Way& way) const {
    return options_.objective == search::Objective::kCost && way.cost ? way.cost->value
                                                                      : way.iteration.value;
  }

  bool names_egress() const {
    const auto& wan = open_.job.cluster.wan;
    return std::any_of(wan.begin(), wan.end(),
                       [](const cluster::WanLink& link) { return link.price.value > 0; });
  }

  // And of each mode the layout that would be the fastest if it had nothing to send: where lines are better
  // it may win.
  std::vector<Way> for_break_even() const {
    std::map<std::string, std::pair<Seconds, const Way*>> fastest;
    for (const Way& way : played_) {
      const auto plan = cost::make_plan(way.job);
      if (way.kind != WayKind::kHomes || !plan) continue;
      const std::pair alone{without_exchange(*plan), &way};
      const auto [at, is_new] = fastest.try_emplace(way.name, alone);
      if (!is_new && alone.first < at->second.first) at->second = alone;
    }
    std::vector<Way> out = ways_.ways;
    for (const Way& way : ways_.ways) {
      const auto found = fastest.find(way.name);
      if (found != fastest.end() && !is_twin(found->second.second->job, way.job))
        out.push_back(*found->second.second);
    }
    return out;
  }

  void find_break_even() {
    if (!options_.break_even || !ways_.ways.front().within || open_.job.cluster.wan.empty()) return;
    double passes = 0;
    for (const Way& way : ways_.ways) {
      const auto plan = cost::make_plan(way.job);
      if (plan && way.kind != WayKind::kAlone) passes += sim::passes_of(*plan);
    }
    if (passes > kPlayBreakEven.value * sim::kPassesPerSecond) return;  // several times each
    const std::vector<Way> ways = for_break_even();
    const bool by_cost = options_.objective == search::Objective::kCost;
    std::vector<BreakEvenAxis> axes;
    for (const auto& each : enum_names(BreakEvenAxis{})) {
      const BreakEvenAxis axis = each.value;
      const bool is_price = axis == BreakEvenAxis::kEgress || axis == BreakEvenAxis::kDevices;
      if (is_price && !by_cost) continue;
      if (axis == BreakEvenAxis::kEgress && !names_egress()) continue;
      axes.push_back(axis);
    }
    std::vector<std::vector<WayRange>> found(axes.size());
    parallel_for(axes.size(), options_.threads, [&](size_t i) {
      found[i] = unless(options_.stop_simulations, [&] {
                   return break_even(ways, axes[i], options_);
                 }).value_or(std::vector<WayRange>{});
    });
    for (size_t i = 0; i < axes.size(); ++i) {
      ways_.stopped = ways_.stopped || found[i].empty();
      if (!found[i].empty()) ways_.break_even.push_back({axes[i], std::move(found[i])});
    }
  }

  // The best of each name, best first.
  void rank() {
    put_in_order(played_, options_.objective);
    std::set<std::string> names;
    for (const Way& way : played_) {
      if (names.insert(way.name).second) ways_.ways.push_back(way);
    }
    mark_front(ways_.ways);
    for (const auto& [name, reason] : misses_) {
      if (!names.contains(name)) ways_.no_ways.push_back({name, reason});
    }
  }

  tl::unexpected<Error> no_way() const {
    if (ways_.stopped)
      return failed(open_.job.file + ": stopped before a way was simulated",
                    "a longer --time-limit");
    std::string text =
        open_.job.file + (ways_.too_large > 0 ? ": no way that is small enough to simulate"
                                              : ": there is no way to train this job");
    for (const NoWay& each : ways_.no_ways)
      text += fmt::format("\n  {}: {}", each.name, each.reason);
    if (ways_.too_large > 0)
      return failed(text,
                    "tombolo plan, which compares stages across and single datacenters by a "
                    "closed form; or --objective time, which takes fewer microbatches each");
    std::string hint = cost::less_prefill(open_.job);
    if (plan::has_fixed_ends(open_.job.parallelism))
      hint += "more datacenters in first_stage_in and last_stage_in, ";
    return infeasible(text, hint + "more devices, or devices with more memory");
  }

  // A simulation takes 2.5 kB for each pass.
  static constexpr double kLargePasses = 200'000;

  // How many plans with stages are examined to find some that span several datacenters.
  static constexpr std::array<int, 2> kMixedTops{40, 2000};

  const plan::OpenJob& open_;
  const WaysOptions& options_;
  // To be repeated in others: by parts of the batch, by datacenter.
  std::map<int64_t, std::vector<std::vector<plan::Job>>> layouts_;
  std::vector<Candidate> candidates_;  // to be simulated
  std::vector<Promise> promises_;      // of each
  int64_t done_ = 0;                   // of them
  std::vector<Way> played_;
  std::map<std::string, std::string> misses_;
  std::set<std::string> did_not_fit_;  // of these, the reason is that of the first that did not fit
  Ways ways_;
};

}  // namespace

Result<Way> way_of(WayKind kind, const std::string& name, const plan::Job& job,
                   const WaysOptions& options, const plan::Hardware* hardware) {
  const plan::Plan plan = TRY(cost::make_plan(job, hardware));
  const schedule::Schedule schedule = TRY(schedule::build(plan));
  TRY(schedule::check_memory(plan, schedule));
  Way way{.kind = kind, .name = name, .job = job};
  way.job.parallelism.microbatches_per_replica = plan.parallelism.microbatches_per_replica;
  way.job.parallelism.microbatches_by_speed = false;
  way.iteration = seconds(TRY(sim::iteration_time(plan)));
  way.devices = plan.devices();
  const cost::Worth worth = cost::worth_of(plan, way.iteration);
  way.tokens_per_s = worth.tokens_per_s;
  way.mfu = worth.mfu;
  way.cost = worth.cost.total();
  for (const ledger::WanFlow& flow : worth.ledger.wan()) way.across = way.across + flow.bytes();
  way.memory = cost::memory_peak(plan, schedule::peak_memory(plan, schedule)).bytes;
  std::map<std::string, int64_t> where;
  for (const layout::Placement& rank : plan.ranks) where[rank.datacenter] += rank.shards;
  std::vector<std::string> places;
  for (const auto& [place, count] : where) {
    way.datacenters.push_back(place);
    places.push_back(fmt::format("{} {}", place, count));
  }
  const layout::Parallelism& p = way.job.parallelism;
  way.layout = fmt::format("{}: tensor {}, pipeline {}, data {}", fmt::join(places, ", "), p.tensor,
                           p.pipeline, p.data);
  if (p.context > 1) way.layout += fmt::format(", context {}", p.context);
  if (p.expert > 1) way.layout += fmt::format(", expert {}", p.expert);
  if (p.virtual_stages > 1) way.layout += fmt::format(", virtual stages {}", p.virtual_stages);
  if (p.zero > 0) way.layout += fmt::format(", zero {}", p.zero);
  const model::Recompute recompute = plan.training.recompute;
  if (recompute != model::Recompute::kNone)
    way.layout += fmt::format(", recompute {}", to_name(recompute));
  way.layout += fmt::format("; microbatches of {}", plan.training.micro_batch);
  if (kind == WayKind::kHomes && options.count_steps && way.job.exchange) {
    const plan::Exchange& exchange = *way.job.exchange;
    const int64_t apart = std::ssize(way.datacenters);
    const int64_t parameters = model::parameters(*way.job.model);
    way.steps = options.profile ? steps_factor(exchange, apart, parameters, *options.profile,
                                               job.training.global_batch)
                                : steps_factor(exchange, apart, parameters);
  }
  way.within = is_within(way, options.limits);
  return way;
}

Result<Ways> ways_across(const plan::OpenJob& open, const WaysOptions& options) {
  return Search(open, options).run();
}

std::vector<Exchange> exchange_grid(const std::optional<Exchange>& own,
                                    const std::vector<int64_t>& local_steps) {
  std::vector<Exchange> grid;
  const auto add = [&](Exchange exchange) {
    if (std::find(grid.begin(), grid.end(), exchange) == grid.end()) grid.push_back(exchange);
  };
  if (own) add(*own);
  add({});
  Exchange sparse{.mode = ExchangeMode::kSparse};
  add(sparse);
  sparse.select = plan::Select::kChunks;
  add(sparse);
  std::vector<int64_t> all_steps{30};
  all_steps.insert(all_steps.end(), local_steps.begin(), local_steps.end());
  for (const int64_t steps : all_steps) {
    Exchange local{.mode = ExchangeMode::kLocal};
    local.steps = steps;
    add(local);
    if (steps >= 4) {
      local.fragments = 4;
      add(local);
    }
    Exchange sparse_local{.mode = ExchangeMode::kSparseLocal, .select = plan::Select::kChunks};
    sparse_local.steps = steps;
    add(sparse_local);
  }
  return grid;
}

std::string exchange_text(const Exchange& exchange) {
  std::string text(to_name(exchange.mode));
  if (exchange.keeps_residuals()) {
    text += fmt::format(" {}", to_name(exchange.select_in_use()));
    text += fmt::format(" {:.3g} %", 100 * exchange.density_in_use());
  }
  if (exchange.is_sparse() && exchange.staleness_in_use() == 0) text += ", no staleness";
  if (exchange.is_local()) text += fmt::format(", {} steps", exchange.steps_in_use());
  if (exchange.is_local() && exchange.fragments_in_use() > 1)
    text += fmt::format(" in {} fragments", exchange.fragments_in_use());
  if ((exchange.is_local() || exchange.is_sparse()) && exchange.values)
    text += fmt::format(", {}", to_name(*exchange.values));
  return text;
}

}  // namespace tombolo::across
