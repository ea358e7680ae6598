// Training that is late or early: windows are made again, and prompts that do not fit any more are
// placed at other times.
#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "steer/prefill/prefill_controller.h"

namespace tombolo::prefill {
// Takes the booked runs out of windows that were made again. Runs that have begun stay, whatever
// they overlap; prompts whose other runs do not fit any more are displaced.
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
  book(active.request, std::move(only_rest), now);
  active_.at(active.request.id).placement = placement;
  return placement;
}

std::vector<PrefillPlacement> PrefillController::shift(int32_t gpu, SimDuration later,
                                                       SimDuration guard, SimTime now) {
  CHECK(gpu >= 0 && gpu < std::ssize(windows_), "GPU {} of {}", gpu, windows_.size());
  windows_[static_cast<size_t>(gpu)].remake(now, later, guard);
  pattern_of_[static_cast<size_t>(gpu)] = kNoKind;
  for (size_t p = 0; p < setting_.pipelines.size(); ++p) {
    for (const PipelineStage& stage : setting_.pipelines[p].stages) {
      if (stage.gpu != gpu) continue;
      kind_of_[p] = kNoKind;
      not_before_[p].clear();
      first_free_[p] = now;
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
