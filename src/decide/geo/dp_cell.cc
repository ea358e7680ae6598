#include "decide/geo/dp_cell.h"

#include <algorithm>
#include <queue>
#include <set>

#include "base/check.h"
#include "base/time.h"

namespace tombolo::geo {
namespace {

void check_shape(const DpCell& cell) {
  CHECK(!cell.parts.empty() && cell.links.size() + 1 == cell.parts.size(), "{} parts, {} links",
        cell.parts.size(), cell.links.size());
  for (const CellPart& part : cell.parts) {
    CHECK(part.stages >= 1 && part.forward.value >= 0 && part.backward.value >= 0,
          "{} stages that take {} s and {} s", part.stages, part.forward.value,
          part.backward.value);
  }
  for (const CellLink& link : cell.links) {
    CHECK(link.occupancy.value >= 0 && link.latency.value >= 0, "a link of {} s and {} s",
          link.occupancy.value, link.latency.value);
  }
  CHECK(cell.pipelines >= 1 && cell.microbatches >= 1, "{} pipelines, {} microbatches",
        cell.pipelines, cell.microbatches);
}

enum class Ends : uint8_t { kForward, kBackward, kTransfer, kLatency };

// Something that ends at `at`. `place` is the stage that runs it, or to which it goes. The order of
// events of one instant makes no difference: all of them end before anything begins.
struct Event {
  int64_t at;
  Ends kind;
  bool forward;
  int32_t pipeline;
  int32_t place;

  bool operator>(const Event& o) const { return at > o.at; }
};

// One stage of one pipeline: how far it is in its 1F1B order.
struct StageState {
  int64_t forwards = 0, backwards = 0;            // done
  int64_t forwards_here = 0, backwards_here = 0;  // inputs that have arrived
  bool busy = false;
};

// A boundary in one direction: who waits, by the instant of being ready, then by pipeline.
struct Channel {
  std::set<std::pair<int64_t, int32_t>> waiting;
  bool busy = false;
};

class Cell {
 public:
  explicit Cell(const DpCell& cell)
      : stages_(cell.stages()), microbatches_(cell.microbatches), pipelines_(cell.pipelines) {
    for (size_t part = 0; part < cell.parts.size(); ++part) {
      for (int64_t s = 0; s < cell.parts[part].stages; ++s) {
        forward_.push_back(round_to_ns(cell.parts[part].forward).ns);
        backward_.push_back(round_to_ns(cell.parts[part].backward).ns);
        link_after_.push_back(-1);
      }
      if (part == cell.links.size()) break;
      link_after_.back() = static_cast<int32_t>(part);
      occupancy_.push_back(round_to_ns(cell.links[part].occupancy).ns);
      latency_.push_back(round_to_ns(cell.links[part].latency).ns);
    }
    channels_.resize(2 * cell.links.size());
    states_.resize(static_cast<size_t>(pipelines_ * stages_));
    for (int64_t p = 0; p < pipelines_; ++p) state(p, 0).forwards_here = microbatches_;
  }

  int64_t play() {
    for (int32_t p = 0; p < pipelines_; ++p) touch(p, 0);
    start_touched(0);
    int64_t now = 0;
    while (!events_.empty()) {
      now = events_.top().at;
      // All that ends now, before anything begins: who is ready at the same instant stands in line
      // by its pipeline, whatever ended first.
      while (!events_.empty() && events_.top().at == now) {
        const Event event = events_.top();
        events_.pop();
        end(event);
      }
      start_touched(now);
    }
    for (const StageState& s : states_) {
      CHECK(s.backwards == microbatches_, "a pipeline stood still");
    }
    return now;
  }

 private:
  StageState& state(int64_t pipeline, int64_t stage) {
    return states_[static_cast<size_t>(pipeline * stages_ + stage)];
  }
  void touch(int32_t pipeline, int32_t stage) { touched_.emplace_back(pipeline, stage); }

  void arrive(int32_t pipeline, int32_t stage, bool forward) {
    StageState& s = state(pipeline, stage);
    ++(forward ? s.forwards_here : s.backwards_here);
    touch(pipeline, stage);
  }

  // The microbatch has left `stage`; it is next wanted by its neighbour.
  void leave(int32_t pipeline, int32_t stage, bool forward, int64_t now) {
    if (forward && stage + 1 == stages_) return arrive(pipeline, stage, false);
    if (!forward && stage == 0) return;
    const int32_t link = link_after_[static_cast<size_t>(forward ? stage : stage - 1)];
    if (link < 0) return arrive(pipeline, forward ? stage + 1 : stage - 1, forward);
    const size_t channel = 2 * static_cast<size_t>(link) + (forward ? 0 : 1);
    channels_[channel].waiting.emplace(now, pipeline);
    lines_.push_back({channel, forward ? stage + 1 : stage - 1});
  }

  void end(const Event& event) {
    if (event.kind == Ends::kForward || event.kind == Ends::kBackward) {
      StageState& s = state(event.pipeline, event.place);
      s.busy = false;
      ++(event.forward ? s.forwards : s.backwards);
      touch(event.pipeline, event.place);
      leave(event.pipeline, event.place, event.forward, event.at);
    } else if (event.kind == Ends::kTransfer) {
      // `place` is where it goes, over the link that lies before or behind it.
      const int32_t link =
          link_after_[static_cast<size_t>(event.forward ? event.place - 1 : event.place)];
      const size_t channel = 2 * static_cast<size_t>(link) + (event.forward ? 0 : 1);
      channels_[channel].busy = false;
      lines_.push_back({channel, event.place});
      const int64_t latency = latency_[static_cast<size_t>(link)];
      if (latency == 0) {
        arrive(event.pipeline, event.place, event.forward);
      } else {
        events_.push(
            {event.at + latency, Ends::kLatency, event.forward, event.pipeline, event.place});
      }
    } else {
      arrive(event.pipeline, event.place, event.forward);
    }
  }

  void start_touched(int64_t now) {
    for (const Line& line : lines_) {
      Channel& channel = channels_[line.channel];
      if (channel.busy || channel.waiting.empty()) continue;
      const int32_t pipeline = channel.waiting.begin()->second;
      channel.waiting.erase(channel.waiting.begin());
      channel.busy = true;
      events_.push({now + occupancy_[line.channel / 2], Ends::kTransfer, line.channel % 2 == 0,
                    pipeline, line.destination});
    }
    lines_.clear();
    for (const auto& [pipeline, stage] : touched_) start_pass(pipeline, stage, now);
    touched_.clear();
  }

  // 1F1B: warm-up forwards, then one backward, one forward in turn.
  void start_pass(int32_t pipeline, int32_t stage, int64_t now) {
    StageState& s = state(pipeline, stage);
    if (s.busy || s.backwards == microbatches_) return;
    const int64_t warm_up = stages_ - 1 - stage;
    const bool forward = s.forwards < microbatches_ && s.forwards <= s.backwards + warm_up;
    if (forward ? s.forwards_here == s.forwards : s.backwards_here == s.backwards) return;
    s.busy = true;
    const auto i = static_cast<size_t>(stage);
    events_.push({now + (forward ? forward_[i] : backward_[i]),
                  forward ? Ends::kForward : Ends::kBackward, forward, pipeline, stage});
  }

  // A channel that may have become free or wanted, and the stage it leads to.
  struct Line {
    size_t channel;
    int32_t destination;
  };

  const int64_t stages_, microbatches_, pipelines_;
  std::vector<int64_t> forward_, backward_;
  std::vector<int32_t> link_after_;  // of each stage; -1: the next stage is in the same datacenter
  std::vector<int64_t> occupancy_, latency_;
  std::vector<StageState> states_;
  std::vector<Channel> channels_;
  std::vector<std::pair<int32_t, int32_t>> touched_;
  std::vector<Line> lines_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

int64_t DpCell::stages() const {
  int64_t sum = 0;
  for (const CellPart& part : parts) sum += part.stages;
  return sum;
}

Seconds gpipe_cell(const DpCell& cell) {
  check_shape(cell);
  Seconds forwards, backwards, hops, forward, backward, occupancy;
  for (const CellPart& part : cell.parts) {
    forwards += real(part.stages) * part.forward;
    backwards += real(part.stages) * part.backward;
    forward = std::max(forward, part.forward);
    backward = std::max(backward, part.backward);
  }
  for (const CellLink& link : cell.links) {
    hops += link.occupancy + link.latency;
    occupancy = std::max(occupancy, link.occupancy);
  }
  const double others = real(cell.microbatches - 1);
  const Seconds one = forwards + hops + others * std::max(forward, occupancy) + backwards + hops +
                      others * std::max(backward, occupancy);
  if (cell.links.empty()) return one;
  return one + real((cell.pipelines - 1) * cell.microbatches) * std::max(forward, occupancy);
}

Seconds one_forward_one_backward_cell(const DpCell& cell) {
  check_shape(cell);
  if (cell.links.empty()) {
    const CellPart& part = cell.parts[0];
    return real(part.stages + cell.microbatches - 1) * (part.forward + part.backward);
  }
  return seconds(SimDuration{Cell(cell).play()});
}

Seconds cell_at_least(const DpCell& cell) {
  check_shape(cell);
  // The last stage of a part begins after one microbatch came through all before it, works on all
  // of them, and the last gradient goes the same way back.
  Seconds way, most;
  for (size_t i = 0; i < cell.parts.size(); ++i) {
    const CellPart& part = cell.parts[i];
    const Seconds pass = part.forward + part.backward;
    most = std::max(most, way + real(part.stages - 1 + cell.microbatches) * pass);
    way += real(part.stages) * pass;
    if (i < cell.links.size()) way += 2 * (cell.links[i].occupancy + cell.links[i].latency);
  }
  return std::max(most, way);
}

}  // namespace tombolo::geo
