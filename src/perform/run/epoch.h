// One epoch of a run as its launcher sees it: workers are started, introduced to each other, report, and all
// end. Its outcome says whether another epoch follows. The caller (launcher.h) begins that one, and passes on to it
// what this epoch leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>

#include "base/clock.h"
#include "perform/join/membership.h"
#include "perform/observe/certificate_watch.h"
#include "perform/observe/progress_tracker.h"
#include "perform/observe/step_record.h"
#include "perform/run/batch_control.h"
#include "perform/run/density_control.h"
#include "perform/run/launcher.h"
#include "spec/plan/plan.h"

namespace tombolo::run {

// Why an epoch ended before the last step, if another one begins.
enum class Setback {
  kNotAllCame,  // some rank did not connect in time
  kLoss,        // a rank was lost, or was silent for too long
  kLacksState,  // all ranks connected, but some of the state is on none of their hosts
  kDamage,      // a checkpoint is damaged, and there is an older one; no rank was lost
};

struct Again {
  Setback setback = Setback::kLoss;
  std::string why;
};

// How an epoch ended: all steps are done, the run failed with that error, or the coordinator gathers
// another epoch.
using Outcome = std::variant<observe::RunSummary, Error, Again>;

// What epochs before this one leave to it: of this launcher, or of one that was killed.
struct Past {
  std::string why;  // why there is another epoch; empty: this is the first
  int lacking = 0;  // gatherings in a row in which no host had the state
  observe::CertificateWatch certificates = {};
  // A rank found the checkpoint of this step damaged, and no newer one was written since.
  int64_t damaged = INT64_MAX;
};

struct EpochEnd {
  Outcome outcome;
  observe::CertificateWatch certificates = {};
  int64_t damaged = INT64_MAX;  // as in Past
};

// Blocks until every worker of this epoch has ended, or may no longer work. `begin` is called when all is checked
// and the port is bound, before the first process is started.
EpochEnd perform_epoch(const plan::Plan& plan, const LaunchOptions& options,
                       join::Membership& membership, observe::StepRecord& record,
                       DensityControl& density, BatchControl& batch, Past past, Threads& threads,
                       std::function<Status()> begin);

}  // namespace tombolo::run
