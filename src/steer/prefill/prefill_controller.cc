#include "steer/prefill/prefill_controller.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <set>

#include "base/check.h"
#include "base/clock.h"

namespace tombolo::prefill {
namespace {

void check_setting(const PrefillSetting& s) {
  CHECK(s.period.ns > 0 && s.within.ns > 0 && s.guard.ns >= 0 && !s.tables.empty(),
        "a period of {} ns, a bound of {}, a guard of {} and {} tables", s.period.ns, s.within.ns,
        s.guard.ns, s.tables.size());
  std::set<int32_t> seen;
  for (const PrefillPipeline& pipeline : s.pipelines) {
    CHECK(!pipeline.stages.empty() && pipeline.table < s.tables.size() &&
              pipeline.datacenter < s.lines.size(),
          "a pipeline of {} stages in datacenter {} with table {}", pipeline.stages.size(),
          pipeline.datacenter, pipeline.table);
    for (const PipelineStage& stage : pipeline.stages) {
      CHECK(stage.gpu >= 0 && stage.gpu < std::ssize(s.busy) && stage.layers >= 1 &&
                seen.insert(stage.gpu).second,
            "{} layers on GPU {}", stage.layers, stage.gpu);
    }
  }
  for (const auto& row : s.lines) {
    CHECK(row.size() == s.lines.size(), "{} lines from one of {} datacenters", row.size(),
          s.lines.size());
  }
}

}  // namespace

PrefillController::PrefillController(PrefillSetting setting) : setting_(std::move(setting)) {
  check_setting(setting_);
  SimDuration shortest = setting_.tables[0].layer_min();
  for (const DurationTable& table : setting_.tables) {
    shortest = std::min(shortest, table.layer_min());
    CHECK(table.tokens_max() == setting_.tables[0].tokens_max(), "tables of two models");
  }
  windows_.reserve(setting_.busy.size());
  for (const Busy& busy : setting_.busy) {
    windows_.emplace_back(busy, setting_.period, setting_.guard, shortest);
  }
  bookings_.resize(setting_.busy.size());
  for (const PrefillPipeline& pipeline : setting_.pipelines) layers_.push_back(pipeline.layers());
  find_kinds(shortest);
  not_before_.assign(setting_.pipelines.size(), {});
  first_free_.resize(setting_.pipelines.size());
  line_free_.assign(setting_.lines.size(), std::vector<SimTime>(setting_.lines.size()));
}

void PrefillController::try_pipeline(const PrefillRequest& request, int32_t p, SimTime now,
                                     PrefillPlacement& best) {
  const PrefillPipeline& pipeline = setting_.pipelines[static_cast<size_t>(p)];
  const PromptTime& time = times_[pipeline.table];
  // Of two that hand over at the same time the first one is taken, whatever the order of trying.
  const SimDuration later{p < best.pipeline ? 0 : 1};
  const SimTime latest = best.handed_over - later - handing_[pipeline.datacenter];
  // How far this one is from what is asked is worth knowing, most of all where none would do so far:
  // the next prompts ask the same.
  const int64_t further = setting_.within.ns / (best.pipeline < 0 ? 4 : 8);
  const SimTime look = latest + SimDuration{further};
  const bool ends = walk(windows_, pipeline, time, {.ready = now}, look, now);
  keep_from(p, request.tokens, ends ? runs_.back().end : look + SimDuration{1});
  if (!ends || runs_.back().end > latest) return;
  const SimTime handed = hand_over(pipeline, request, time, runs_);
  if (std::pair(handed, p) >= std::pair(best.handed_over, best.pipeline)) return;
  best = {request.id, p, std::move(best.runs), runs_.back().end, handed};
  best.runs.swap(runs_);
}

Admission PrefillController::place(const PrefillRequest& request, SimTime now) {
  if (!find_lines(request)) return {Verdict::kNoLine, {}};
  times_.clear();
  for (const DurationTable& table : setting_.tables) times_.push_back(table.at(request.tokens));
  const SimTime bound = (request.batch ? now : request.arrival) + setting_.within;
  find_bounds(bound, now);
  find_candidates(request.tokens, bound, now);
  if (candidates_.empty()) return {Verdict::kNoWindow, {}};
  PrefillPlacement best{.pipeline = -1, .handed_over = bound + SimDuration{1}};
  // Mostly the first one tried leaves nothing to gain, and no order of the others is asked for.
  const auto first = std::min_element(candidates_.begin(), candidates_.end());
  try_pipeline(request, first->second, now, best);
  candidates_.erase(first);
  std::erase_if(candidates_, [&](const auto& each) {
    return each >= std::pair(best.handed_over, best.pipeline);
  });
  std::make_heap(candidates_.begin(), candidates_.end(), std::greater<>());
  for (auto end = candidates_.end(); end != candidates_.begin(); --end) {
    std::pop_heap(candidates_.begin(), end, std::greater<>());
    const auto next = *(end - 1);
    if (next >= std::pair(best.handed_over, best.pipeline)) break;
    try_pipeline(request, next.second, now, best);
  }
  if (best.pipeline < 0) return {Verdict::kNoWindow, {}};
  return {Verdict::kPlaced, std::move(best)};
}

void PrefillController::forget(int32_t gpu, SimTime now) {
  std::deque<Booking>& booked = bookings_[static_cast<size_t>(gpu)];
  while (!booked.empty() && booked.front().run.end <= now) booked.pop_front();
}

void PrefillController::book(const PrefillRequest& request, PrefillPlacement placement,
                             SimTime now) {
  const auto p = static_cast<size_t>(placement.pipeline);
  for (const PrefillRun& run : placement.runs) {
    const auto gpu = static_cast<size_t>(run.gpu);
    windows_[gpu].reach(now, run.end);
    CHECK(windows_[gpu].take(run.start, run.end), "GPU {} is not free from {} to {}", run.gpu,
          run.start.ns, run.end.ns);
    std::deque<Booking>& booked = bookings_[gpu];
    const auto after =
        std::upper_bound(booked.begin(), booked.end(), run.start,
                         [](SimTime t, const Booking& other) { return t < other.run.start; });
    booked.insert(after, {request.id, run});
  }
  const PrefillPipeline& pipeline = setting_.pipelines[p];
  first_free_[p] = windows_[static_cast<size_t>(pipeline.stages[0].gpu)].earliest();
  const size_t from = pipeline.datacenter;
  const size_t to = request.decode == kDecodeAtHome ? from : static_cast<size_t>(request.decode);
  if (from != to) {
    line_free_[from][to] = placement.handed_over - round_to_ns(setting_.lines[from][to].latency);
  }
  endings_.emplace_back(placement.first_token, request.id);
  active_.insert_or_assign(request.id, Active{request, std::move(placement)});
}

Admission PrefillController::submit(const PrefillRequest& request, SimTime now) {
  CHECK(request.tokens >= 1 && request.arrival <= now, "a prompt of {} tokens that comes in {} ns",
        request.tokens, (request.arrival - now).ns);
  while (!endings_.empty() && endings_.front().first <= now) {
    const auto over = active_.find(endings_.front().second);
    // One that was moved has an ending of its own further behind.
    if (over != active_.end() && over->second.placement.first_token <= now) active_.erase(over);
    endings_.pop_front();
  }
  if (request.tokens > setting_.tables[0].tokens_max()) return {Verdict::kTooLong, {}};
  CHECK(!active_.contains(request.id), "prompt {} twice at a time", request.id);
  const bool waits = request.batch && !queue_.empty();
  Admission answer = waits ? Admission{} : place(request, now);
  if (answer.verdict == Verdict::kPlaced) {
    for (const PrefillRun& run : answer.placement.runs) forget(run.gpu, now);
    book(request, answer.placement, now);
  } else if (answer.verdict == Verdict::kNoWindow && request.batch &&
             queue_.size() < setting_.queue_max) {
    queue_.push_back(request);
    answer.verdict = Verdict::kQueued;
  }
  return answer;
}

std::vector<PrefillPlacement> PrefillController::advance(SimTime now) {
  std::vector<PrefillPlacement> placed;
  while (!queue_.empty()) {
    Admission answer = place(queue_.front(), now);
    if (answer.verdict != Verdict::kPlaced) break;
    book(queue_.front(), answer.placement, now);
    placed.push_back(std::move(answer.placement));
    queue_.pop_front();
  }
  return placed;
}

}  // namespace tombolo::prefill
