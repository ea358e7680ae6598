// Telemetry: what a run is doing, for people (tombolo status) and for Prometheus (/metrics).
//
// Ranks report their links every second (LinksReport, control_message.h), the launcher passes the reports
// on, and the HTTP server asks for text: from any thread. Nothing here is on the critical path of an
// iteration. Memory: the newest report of every rank.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/value.h"
#include "perform/observe/link_report.h"
#include "perform/observe/progress_tracker.h"
#include "perform/observe/progress_watch.h"
#include "perform/observe/run_phase.h"
#include "perform/stage/perform.h"
#include "perform/trust/credentials.h"
#include "spec/plan/plan.h"
#include "steer/tune/tuning_decisions.h"

namespace tombolo::observe {

class Telemetry {
 public:
  Telemetry(const plan::Plan& plan, const Clock& clock);

  void heard(int32_t rank);
  void add(int32_t rank, std::vector<LinkReport> links);
  void add(int32_t rank, const stage::IterationReport& report);
  void add(int32_t rank, const std::optional<Hang>& hang);  // that it has hung, or has not
  void add(int32_t rank, const trust::CertificateFacts& certificate);  // of its host
  void add(const Progress& progress);
  void add(RunPhase phase);
  void add(const tune::DensityDecision& change);
  void add(const tune::BatchDecision& change);

  // Prometheus' text format 0.0.4.
  std::string prometheus() const;
  // {"phase", "steps_done", "steps", "ranks": [...], "links": [...]}, as `tombolo status --json` prints it.
  Value status() const;

 private:
  struct Rank {
    std::string datacenter;
    std::optional<SimTime> heard;
    std::optional<double> late_s;  // of its last iteration
    int64_t iteration = 0;
    std::vector<LinkReport> links;
    std::optional<Hang> hang;
    std::optional<trust::CertificateFacts> certificate;
  };
  bool knows(int32_t rank) const { return rank >= 0 && static_cast<size_t>(rank) < ranks_.size(); }
  std::optional<double> silence_s(const Rank& rank) const;
  std::optional<double> hang_s(const Rank& rank) const;
  std::string trouble(size_t rank) const;
  bool is_batch_to_come() const;

  const Clock& clock_;
  const SimTime begun_;
  const int64_t steps_;
  const std::string schedule_;
  mutable std::mutex mutex_;
  std::vector<Rank> ranks_;
  std::optional<Progress> progress_;
  std::optional<tune::DensityDecision> density_;  // of a run that may change it; the newest
  int64_t density_changes_ = 0;
  std::optional<tune::BatchDecision> batch_;  // the same, of the microbatches of each pipeline
  int64_t batch_changes_ = 0;
  bool epoch_began_with_batch_ = true;  // else it holds from its first iteration on
  RunPhase phase_ = RunPhase::kGathering;
};

}  // namespace tombolo::observe
