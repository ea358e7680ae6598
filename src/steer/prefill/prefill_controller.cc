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

int64_t layers_of(const PrefillPipeline& pipeline) {
  int64_t layers = 0;
  for (const PipelineStage& stage : pipeline.stages) layers += stage.layers;
  return layers;
}

// Lengths of prompts, eight to an octave: of two in different buckets the longer one has the higher.
constexpr size_t kBuckets = 8 * 28;

size_t bucket_of(int64_t tokens) {
  const auto whole = static_cast<uint64_t>(tokens) << 3;
  const auto octave = static_cast<size_t>(std::bit_width(whole)) - 4;
  return std::min(8 * octave + ((whole >> octave) & 7), kBuckets - 1);
}

// Layers of one shard, from `t` on, as early as they fit; where the last one ends, or kNever.
// `pass` says what runs; the caller fills in where.
struct StagePass {
  SimDuration layer, tail;  // the tail follows the last layer
  int64_t layers = 0;
  bool suspension = true;
  SimTime latest;
};

template <class Emit>
SimTime pass_stage(const FreeWindows& windows, SimTime t, const StagePass& pass, const Emit& emit) {
  int64_t left = pass.layers;
  SimDuration whole = pass.layer * left + pass.tail;
  SimTime start_max = pass.latest - whole;
  for (const Span* window = windows.first_after(t); window != windows.end(); ++window) {
    const SimTime start = std::max(t, window->start);
    if (start > start_max) return kNever;
    const SimDuration room = window->end - start;
    if (room >= whole) {
      emit(left, start, start + whole);
      return start + whole;
    }
    if (room < pass.layer || !pass.suspension || left == 1) continue;
    const int64_t fit = std::min(room.ns / pass.layer.ns, left - 1);
    t = start + pass.layer * fit;
    emit(fit, start, t);
    left -= fit;
    whole = pass.layer * left + pass.tail;
    start_max = pass.latest - whole;
  }
  return kNever;
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
  for (const PrefillPipeline& pipeline : setting_.pipelines) layers_.push_back(layers_of(pipeline));
  find_kinds(shortest);
  not_before_.assign(setting_.pipelines.size(), {});
  line_free_.assign(setting_.lines.size(), std::vector<SimTime>(setting_.lines.size()));
}

// Pipelines whose GPUs are busy at the same times, with the same layers on each: without prompts all
// of a kind end at the same time.
void PrefillController::find_kinds(SimDuration shortest) {
  std::map<std::vector<std::pair<int64_t, int64_t>>, int32_t> pattern_ids, kind_ids;
  std::vector<int32_t> pattern_of;
  for (const Busy& busy : setting_.busy) {
    std::vector<std::pair<int64_t, int64_t>> spans;
    for (const Span& span : busy) spans.emplace_back(span.start.ns, span.end.ns);
    const auto [known, first] = pattern_ids.emplace(spans, std::ssize(patterns_));
    if (first) patterns_.emplace_back(busy, setting_.period, setting_.guard, shortest);
    pattern_of.push_back(known->second);
  }
  for (size_t p = 0; p < setting_.pipelines.size(); ++p) {
    const PrefillPipeline& pipeline = setting_.pipelines[p];
    std::vector<std::pair<int64_t, int64_t>> key{{static_cast<int64_t>(pipeline.table), 0}};
    PrefillPipeline unused = pipeline;
    for (PipelineStage& stage : unused.stages) {
      stage.gpu = pattern_of[static_cast<size_t>(stage.gpu)];
      key.emplace_back(stage.gpu, stage.layers);
    }
    const auto [known, first] = kind_ids.emplace(key, std::ssize(kinds_));
    if (first) kinds_.push_back(std::move(unused));
    kind_of_.push_back(known->second);
  }
}

// Of each datacenter, what a hand-over from there takes after the first token at least: a layer's KV
// cache over the line. kNoLine where there is none. Whether there is any.
bool PrefillController::find_lines(const PrefillRequest& request) {
  const Bytes layer = setting_.kv_per_token_and_layer * real(request.tokens);
  handing_.assign(setting_.lines.size(), kNoLine);
  bool any = false;
  for (size_t from = 0; from < setting_.lines.size(); ++from) {
    const size_t to = request.decode == kDecodeAtHome ? from : static_cast<size_t>(request.decode);
    if (to >= setting_.lines.size()) continue;
    const KvLine& line = setting_.lines[from][to];
    if (line.rate.value <= 0) continue;
    handing_[from] = round_to_ns(layer / line.rate) + round_to_ns(line.latency);
    any = true;
  }
  return any;
}

bool PrefillController::walk(std::vector<FreeWindows>& gpus, const PrefillPipeline& pipeline,
                             const PromptTime& time, Progress at, SimTime latest, SimTime now) {
  runs_.clear();
  int64_t behind = -at.done;  // layers to come
  for (size_t s = at.stage; s < pipeline.stages.size(); ++s) behind += pipeline.stages[s].layers;
  for (; at.stage < pipeline.stages.size(); ++at.stage, at.done = 0) {
    const PipelineStage& stage = pipeline.stages[at.stage];
    const bool last = at.stage + 1 == pipeline.stages.size();
    FreeWindows& windows = gpus[static_cast<size_t>(stage.gpu)];
    windows.reach(now, latest);
    const int64_t left = stage.layers - at.done;
    behind -= left;
    // What is to come after this shard takes at least so long.
    const SimDuration after = last ? SimDuration{}
                                   : time.layer * behind + time.ends +
                                         time.transfer * (std::ssize(pipeline.stages) - 1 -
                                                          static_cast<int64_t>(at.stage));
    const StagePass pass{time.layer, last ? time.ends : SimDuration{}, left, setting_.suspension,
                         latest - after};
    const SimTime end =
        pass_stage(windows, at.ready, pass, [&](int64_t fit, SimTime from, SimTime to) {
          runs_.push_back(
              {stage.gpu, static_cast<int32_t>(at.stage), at.first_layer, fit, from, to});
          at.first_layer += fit;
        });
    if (end == kNever) return false;
    at.ready = end + time.transfer;
  }
  return true;
}

// Each layer's keys and values leave as soon as they are there.
SimTime PrefillController::hand_over(const PrefillPipeline& pipeline, const PrefillRequest& request,
                                     const PromptTime& time,
                                     const std::vector<PrefillRun>& runs) const {
  const size_t from = pipeline.datacenter;
  const size_t to = request.decode == kDecodeAtHome ? from : static_cast<size_t>(request.decode);
  const KvLine& line = setting_.lines[from][to];
  const Bytes layer = setting_.kv_per_token_and_layer * real(request.tokens);
  const auto takes = [&](int64_t layers) { return round_to_ns(layer * real(layers) / line.rate); };
  SimTime handed = runs.back().end;
  if (from != to) {
    const SimTime begin = std::max(line_free_[from][to], runs.front().start + time.layer);
    handed = std::max(begin + takes(layers_of(pipeline)), handed + takes(1));
    return handed + round_to_ns(line.latency);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const bool first_of_stage = i == 0 || runs[i - 1].stage != runs[i].stage;
    if (!first_of_stage) continue;
    const int64_t layers = pipeline.stages[static_cast<size_t>(runs[i].stage)].layers;
    handed = std::max(handed, runs[i].start + time.layer + takes(layers));
  }
  handed = std::max(handed, runs.back().end + takes(1));
  return handed + round_to_ns(line.latency);
}

// When a prompt ends on a pipeline of each kind that has no other; kNever: after the bound.
void PrefillController::find_bounds(SimTime bound, SimTime now) {
  kind_ends_.clear();
  for (const PrefillPipeline& kind : kinds_) {
    const bool in_time = walk(patterns_, kind, times_[kind.table], {.ready = now}, bound, now);
    kind_ends_.push_back(in_time ? runs_.back().end : kNever);
  }
}

// Pipelines with the earliest hand-over that they could have.
void PrefillController::find_candidates(int64_t tokens, SimTime bound, SimTime now) {
  candidates_.clear();
  const size_t bucket = bucket_of(tokens);
  for (size_t p = 0; p < setting_.pipelines.size(); ++p) {
    const PrefillPipeline& pipeline = setting_.pipelines[p];
    const SimDuration handing = handing_[pipeline.datacenter];
    if (handing == kNoLine) continue;
    const auto first = static_cast<size_t>(pipeline.stages.front().gpu);
    SimTime at_best = std::max(now, windows_[first].earliest()) +
                      times_[pipeline.table].total(layers_[p], std::ssize(pipeline.stages));
    if (kind_of_[p] != kNoKind) {
      at_best = std::max(at_best, kind_ends_[static_cast<size_t>(kind_of_[p])]);
    }
    if (!not_before_[p].empty()) at_best = std::max(at_best, not_before_[p][bucket]);
    if (at_best + handing <= bound) {
      candidates_.emplace_back(at_best + handing, static_cast<int32_t>(p));
    }
  }
}

void PrefillController::try_pipeline(const PrefillRequest& request, int32_t p, SimTime now,
                                     PrefillPlacement& best) {
  const PrefillPipeline& pipeline = setting_.pipelines[static_cast<size_t>(p)];
  const PromptTime& time = times_[pipeline.table];
  const SimTime latest = best.handed_over - SimDuration{1} - handing_[pipeline.datacenter];
  // Where none would do so far, how far this one is from it is worth knowing: the next prompts ask
  // the same.
  const SimTime look = best.pipeline < 0 ? latest + SimDuration{setting_.within.ns / 4} : latest;
  const bool ends = walk(windows_, pipeline, time, {.ready = now}, look, now);
  if (!ends || runs_.back().end > latest) {
    keep_from(p, request.tokens, ends ? runs_.back().end : look + SimDuration{1});
    return;
  }
  const SimTime handed = hand_over(pipeline, request, time, runs_);
  if (handed >= best.handed_over) return;
  best = {request.id, p, std::move(best.runs), runs_.back().end, handed};
  best.runs.swap(runs_);
}

// A prompt at least as long does not end before this on a pipeline: time only takes windows away.
void PrefillController::keep_from(int32_t p, int64_t tokens, SimTime end) {
  std::vector<SimTime>& known = not_before_[static_cast<size_t>(p)];
  known.resize(kBuckets);
  for (size_t b = bucket_of(tokens) + 1; b < kBuckets && known[b] < end; ++b) known[b] = end;
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
  std::erase_if(candidates_, [&](const auto& each) { return each.first >= best.handed_over; });
  std::make_heap(candidates_.begin(), candidates_.end(), std::greater<>());
  for (auto end = candidates_.end(); end != candidates_.begin(); --end) {
    std::pop_heap(candidates_.begin(), end, std::greater<>());
    const auto [at_best, p] = *(end - 1);
    if (at_best >= best.handed_over) break;
    try_pipeline(request, p, now, best);
  }
  if (best.pipeline < 0) return {Verdict::kNoWindow, {}};
  return {Verdict::kPlaced, std::move(best)};
}

void PrefillController::forget(int32_t gpu, SimTime now) {
  std::deque<Booking>& booked = bookings_[static_cast<size_t>(gpu)];
  while (!booked.empty() && booked.front().run.end <= now) booked.pop_front();
}

void PrefillController::book(const PrefillRequest& request, PrefillPlacement placement) {
  for (const PrefillRun& run : placement.runs) {
    const auto gpu = static_cast<size_t>(run.gpu);
    CHECK(windows_[gpu].take(run.start, run.end), "GPU {} is not free from {} to {}", run.gpu,
          run.start.ns, run.end.ns);
    std::deque<Booking>& booked = bookings_[gpu];
    const auto after =
        std::upper_bound(booked.begin(), booked.end(), run.start,
                         [](SimTime t, const Booking& other) { return t < other.run.start; });
    booked.insert(after, {request.id, run});
  }
  const PrefillPipeline& pipeline = setting_.pipelines[static_cast<size_t>(placement.pipeline)];
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
    book(request, answer.placement);
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
    book(queue_.front(), answer.placement);
    placed.push_back(std::move(answer.placement));
    queue_.pop_front();
  }
  return placed;
}

// Takes what is booked out of windows that were made anew. Runs that have begun stand, whatever they
// overlap; prompts whose others do not fit any more are displaced.
void PrefillController::take_again(int32_t gpu, SimTime now, std::vector<int64_t>& displaced) {
  forget(gpu, now);
  FreeWindows& windows = windows_[static_cast<size_t>(gpu)];
  SimTime until = now;
  for (const Booking& booking : bookings_[static_cast<size_t>(gpu)]) {
    until = std::max(until, booking.run.end);
  }
  windows.reach(now, until);
  for (const Booking& booking : bookings_[static_cast<size_t>(gpu)]) {
    if (booking.run.start < now) {
      windows.block(now, booking.run.end);
    } else if (!windows.take(booking.run.start, booking.run.end)) {
      displaced.push_back(booking.id);
    }
  }
}

void PrefillController::drop_unbegun(const Active& active, SimTime now,
                                     std::vector<int32_t>& gpus) {
  for (const PrefillRun& run : active.placement.runs) {
    if (run.start < now) continue;
    std::deque<Booking>& booked = bookings_[static_cast<size_t>(run.gpu)];
    const auto here = std::find_if(booked.begin(), booked.end(), [&](const Booking& booking) {
      return booking.id == active.request.id && booking.run.start == run.start;
    });
    if (here == booked.end()) continue;
    booked.erase(here);
    gpus.push_back(run.gpu);
  }
}

PrefillPlacement PrefillController::go_on(Active& active, SimTime now) {
  const PrefillPipeline& pipeline =
      setting_.pipelines[static_cast<size_t>(active.placement.pipeline)];
  const PromptTime time = setting_.tables[pipeline.table].at(active.request.tokens);
  Progress at{.ready = now};
  std::vector<PrefillRun> begun;
  for (const PrefillRun& run : active.placement.runs) {
    if (run.start >= now) break;
    begun.push_back(run);
    at.stage = static_cast<size_t>(run.stage);
    at.done = begun.size() > 1 && begun[begun.size() - 2].stage == run.stage ? at.done + run.layers
                                                                             : run.layers;
    at.first_layer = run.first_layer + run.layers;
    at.ready = std::max(now, run.end);
    if (at.done < pipeline.stages[at.stage].layers) continue;
    at = {at.stage + 1, 0, at.first_layer, std::max(now, run.end + time.transfer)};
  }
  PrefillPlacement placement{active.request.id, active.placement.pipeline, begun, kNever, kNever};
  if (!walk(windows_, pipeline, time, at, now + setting_.within, now)) return placement;
  const std::vector<PrefillRun> rest = runs_;
  placement.runs.insert(placement.runs.end(), rest.begin(), rest.end());
  placement.first_token = placement.runs.back().end;
  placement.handed_over = hand_over(pipeline, active.request, time, placement.runs);
  PrefillPlacement only_rest = placement;
  only_rest.runs = rest;
  book(active.request, std::move(only_rest));
  active_.at(active.request.id).placement = placement;
  return placement;
}

std::vector<PrefillPlacement> PrefillController::shift(int32_t gpu, SimDuration later,
                                                       SimDuration guard, SimTime now) {
  CHECK(gpu >= 0 && gpu < std::ssize(windows_), "GPU {} of {}", gpu, windows_.size());
  windows_[static_cast<size_t>(gpu)].remake(now, later, guard);
  for (size_t p = 0; p < setting_.pipelines.size(); ++p) {
    for (const PipelineStage& stage : setting_.pipelines[p].stages) {
      if (stage.gpu != gpu) continue;
      kind_of_[p] = kNoKind;
      not_before_[p].clear();
    }
  }
  std::vector<int64_t> displaced;
  take_again(gpu, now, displaced);
  if (displaced.empty()) return {};
  std::sort(displaced.begin(), displaced.end());
  displaced.erase(std::unique(displaced.begin(), displaced.end()), displaced.end());
  std::vector<int32_t> gpus{gpu};
  for (const int64_t id : displaced) drop_unbegun(active_.at(id), now, gpus);
  std::sort(gpus.begin(), gpus.end());
  gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
  for (const int32_t each : gpus) {
    FreeWindows& windows = windows_[static_cast<size_t>(each)];
    windows.remake(now, {}, windows.guard());
    std::vector<int64_t> none;
    take_again(each, now, none);
    CHECK(none.empty(), "prompt {} does not fit where it was", none.empty() ? 0 : none[0]);
  }
  std::vector<PrefillPlacement> moved;
  for (const int64_t id : displaced) {
    Active active = active_.at(id);
    moved.push_back(go_on(active, now));
    if (moved.back().first_token == kNever) active_.erase(id);
  }
  return moved;
}

}  // namespace tombolo::prefill
