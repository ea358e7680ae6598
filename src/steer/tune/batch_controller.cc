#include "steer/tune/batch_controller.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "spec/plan/adaptive_batch.h"

namespace tombolo::tune {
namespace {

constexpr int64_t kAheadMax = 1024;

Seconds middle_of(const std::deque<Seconds>& values) {
  std::vector<Seconds> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

Seconds end_of_passes(const std::vector<Pace>& paces, const std::vector<int64_t>& microbatches) {
  Seconds most;
  for (size_t i = 0; i < paces.size(); ++i) most = std::max(most, paces[i].of(microbatches[i]));
  return most;
}

}  // namespace

BatchController::BatchController(Options options)
    : options_(std::move(options)),
      all_(std::accumulate(options_.microbatches.begin(), options_.microbatches.end(), int64_t{0})),
      microbatches_(options_.microbatches),
      ahead_(options_.ahead),
      windows_(microbatches_.size()) {
  CHECK(!microbatches_.empty() && options_.positions >= 1 &&
            all_ >= std::ssize(microbatches_) * options_.positions,
        "{} microbatches in {} pipelines of {} positions", all_, microbatches_.size(),
        options_.positions);
  CHECK(options_.transfers.size() == microbatches_.size(), "{} transfers for {} pipelines",
        options_.transfers.size(), microbatches_.size());
  CHECK(options_.gain_least >= 0 && options_.window >= 1 && options_.ahead >= 1,
        "a gain of {}, a window of {}, {} ahead", options_.gain_least, options_.window,
        options_.ahead);
}

void BatchController::measure(const Open& open) {
  for (size_t i = 0; i < pipelines(); ++i) {
    Seconds slowest, sum = options_.transfers[i];
    for (size_t rank = i; rank < open.reports.size(); rank += pipelines()) {
      const PassTimes& report = *open.reports[rank];
      const Seconds each = report.computing / static_cast<double>(report.microbatches);
      slowest = std::max(slowest, each);
      sum += each;
    }
    const PassTimes& of_first = *open.reports[i];
    Seconds next = slowest;
    if (options_.positions > 1 && of_first.microbatches > 1) {
      const double further = static_cast<double>(of_first.microbatches - 1);
      next = std::max(next, (of_first.passes - sum) / further);
    }
    Window& window = windows_[i];
    window.first.push_back(sum);
    window.next.push_back(next);
    if (std::ssize(window.first) <= options_.window) continue;
    window.first.pop_front();
    window.next.pop_front();
  }
}

std::vector<Pace> BatchController::paces() const {
  std::vector<Pace> out;
  for (const Window& window : windows_)
    out.push_back({middle_of(window.first), middle_of(window.next)});
  return out;
}

std::optional<BatchDecision> BatchController::add(int32_t rank, int64_t iteration,
                                                  const PassTimes& report) {
  const size_t ranks = pipelines() * static_cast<size_t>(options_.positions);
  CHECK(rank >= 0 && static_cast<size_t>(rank) < ranks, "a report of rank {} of {}", rank, ranks);
  newest_ = std::max(newest_, iteration);
  if (iteration <= closed_ || report.microbatches < 1) return std::nullopt;
  const auto [at, is_new] = open_.try_emplace(iteration);
  Open& open = at->second;
  if (is_new) {
    open.reports.resize(ranks);
    open.missing = ranks;
  }
  std::optional<PassTimes>& own = open.reports[static_cast<size_t>(rank)];
  if (std::exchange(own, report)) return std::nullopt;
  if (--open.missing > 0) return std::nullopt;
  const Open whole = std::move(open);
  open_.erase(open_.begin(), std::next(at));
  closed_ = iteration;
  if (left_out_ < options_.warmup) {
    ++left_out_;
    return std::nullopt;
  }
  if (proposal_ || iteration < settled_) return std::nullopt;
  measure(whole);
  if (std::ssize(windows_.front().first) < options_.window) return std::nullopt;
  const std::vector<Pace> now = paces();
  if (known_.empty()) known_ = now;
  std::vector<int64_t> wanted = divide_by_pace(now, all_, options_.positions);
  const Seconds before = end_of_passes(now, microbatches_), after = end_of_passes(now, wanted);
  if (wanted == microbatches_ || after > before * (1 - options_.gain_least)) return std::nullopt;
  proposal_ = BatchDecision{.first_iteration = newest_ + ahead_,
                            .before = microbatches_,
                            .microbatches = std::move(wanted),
                            .reason = reason(now, before, after)};
  return proposal_;
}

void BatchController::settle(bool holds) {
  CHECK(proposal_, "nothing was decided");
  const BatchDecision decided = *std::exchange(proposal_, std::nullopt);
  if (!holds) {
    ahead_ = std::min(2 * ahead_, kAheadMax);
    return;
  }
  known_ = paces();
  microbatches_ = decided.microbatches;
  settled_ = decided.first_iteration;
  for (Window& window : windows_) window = {};
}

// The pipeline whose speed changed most; where none did, the slowest and the fastest.
std::string BatchController::reason(const std::vector<Pace>& paces, Seconds before,
                                    Seconds after) const {
  const auto change = [&](size_t i) {
    const double was = std::max(known_[i].next.value, 1e-12);
    return std::abs(std::log(std::max(paces[i].next.value, 1e-12) / was));
  };
  size_t changed = 0, slowest = 0, fastest = 0;
  for (size_t i = 1; i < paces.size(); ++i) {
    if (change(i) > change(changed)) changed = i;
    if (paces[i].next > paces[slowest].next) slowest = i;
    if (paces[i].next < paces[fastest].next) fastest = i;
  }
  const auto takes = [&](size_t i, const std::vector<Pace>& of) { return brief(of[i].next); };
  const bool alike =
      paces[slowest].next.value <= paces[fastest].next.value * (1 + options_.gain_least);
  const std::string what =
      change(changed) > options_.gain_least
          ? fmt::format("pipeline {} takes {} for a microbatch, {} before", changed,
                        takes(changed, paces), takes(changed, known_))
      : alike ? fmt::format("all pipelines take about {} for a microbatch", takes(slowest, paces))
              : fmt::format("pipeline {} takes {} for a microbatch, pipeline {} {}", slowest,
                            takes(slowest, paces), fastest, takes(fastest, paces));
  return fmt::format("{}: passes end after {} instead of {}", what, brief(after), brief(before));
}

BatchController::Options batch_options(const plan::Plan& plan, std::vector<int64_t> microbatches) {
  BatchController::Options out;
  out.microbatches = std::move(microbatches);
  out.positions = static_cast<int32_t>(plan.parallelism.pipeline);
  for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
    Seconds transfers;
    for (int32_t position = 1; position < out.positions; ++position) {
      const int32_t to = position * plan.replicas() + replica;
      const plan::Channel channel = plan::expected_channel(plan, to - plan.replicas(), to);
      transfers += (channel.latency + channel.serialisation(plan.boundary)) * 2;
    }
    out.transfers.push_back(transfers);
  }
  return out;
}

}  // namespace tombolo::tune
