#include "perform/run/launcher.h"

#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "perform/join/membership.h"
#include "perform/observe/certificate_watch.h"
#include "perform/observe/step_record.h"
#include "perform/run/epoch.h"
#include "perform/run/first_checkpoint.h"
#include "perform/state/checkpoint_lock.h"
#include "perform/state/state_snapshot.h"

namespace tombolo::run {
namespace {

// Held while this host works for the run. If the folder already exists, it is locked before
// anything is said about its checkpoints: they may belong to another run that is still active.
Result<state::CheckpointLock> lock_checkpoints(const plan::Plan& plan, const LaunchOptions& options,
                                               Clock& clock) {
  return state::CheckpointLock::take(plan.checkpoint->directory,
                                     state::run_name(options.output, options.restarts > 0), clock);
}

}  // namespace

Result<observe::RunSummary> launch(const plan::Plan& plan, const LaunchOptions& options,
                                   Threads& clock) {
  const Status terms = options.terms.check();
  CHECK(terms, "{}", terms.error().message);
  CHECK(options.restarts >= 0 && options.end_max.ns > 0, "{} restarts, {} ns for workers to end",
        options.restarts, options.end_max.ns);
  TRY(check_performable(plan));
  TRY(during(make_directories(options.output), "creating the output folder"));
  const bool lasting = options.restarts > 0;
  // If the run is refused, the folder stays as it is, journal and kept states included.
  join::Membership::Earlier earlier;
  if (lasting) earlier = TRY(join::Membership::earlier_run(plan, options.output));
  std::optional<state::CheckpointLock> lock;
  if (takes_checkpoints(plan) && std::filesystem::exists(plan.checkpoint->directory))
    lock.emplace(TRY(lock_checkpoints(plan, options, clock)));
  // A run that was done needs no checkpoint: older ones may be damaged (Epoch::prepare).
  if (!earlier.was_done) TRY(first_checkpoint(plan, options, earlier.goes_on, INT64_MAX, {}));
  if (takes_checkpoints(plan) && !lock) {
    TRY(make_directories(plan.checkpoint->directory));
    lock.emplace(TRY(lock_checkpoints(plan, options, clock)));
  }
  join::MembershipOptions members{.output = lasting ? options.output : "",
                                  .all_ended = options.all_ended,
                                  .terms = options.terms,
                                  .losses_max = options.restarts};
  if (options.rendezvous) members.gather_max = options.rendezvous->join_max;
  const auto membership = TRY(join::Membership::open(plan, members, clock));
  Past past;
  if (membership->goes_on()) past.why = "the launcher of this run was killed";
  if (past.why.empty()) state::remove_kept(options.output);
  if (const auto own = join::certificate_of(options.security)) {
    const std::string line = past.certificates.add(*own, trust::wall_time());
    if (options.on_note && !line.empty()) options.on_note(line);
  }
  observe::StepRecord record;
  if (lasting)
    record = TRY(
        observe::StepRecord::open(options.output + "/journal-losses.jsonl", membership->goes_on()));
  DensityControl density(plan, lasting ? options.output + "/journal-density.json" : "",
                         membership->goes_on());
  // Decisions of the previous launcher; the same for the batch below.
  for (const tune::DensityDecision& decision : density.history().newest()) {
    if (options.telemetry) options.telemetry->add(decision);
  }
  BatchControl batch(plan, lasting ? options.output + "/journal-batch.json" : "",
                     membership->goes_on(), options.batch_window);
  for (const tune::BatchDecision& decision : batch.history().newest()) {
    if (options.telemetry) options.telemetry->add(decision);
  }
  int restarts = 0;
  const auto end = [&](Result<observe::RunSummary> summary) {
    // If the journal could not be written, leave it as it was: the next launcher resumes from
    // there.
    if (!summary && !membership->status()) return summary;
    membership->close(summary ? "all steps are done" : summary.error().message);
    state::remove_kept(options.output);
    std::error_code ec;
    if (lasting) std::filesystem::remove(join::Membership::journal_path(options.output), ec);
    record.remove();
    density.history().remove_file();
    batch.history().remove_file();
    return summary;
  };
  bool begun = false;
  const auto begin = [&]() -> Status {
    if (std::exchange(begun, true) || !options.on_begin) return {};
    return options.on_begin();
  };
  while (true) {
    EpochEnd epoch =
        perform_epoch(plan, options, *membership, record, density, batch, past, clock, begin);
    if (auto* summary = std::get_if<observe::RunSummary>(&epoch.outcome)) {
      summary->restarts = restarts;
      summary->first_loss = record.first_loss();
      return end(std::move(*summary));
    }
    if (const auto* error = std::get_if<Error>(&epoch.outcome)) return end(fail(*error));
    const auto& [setback, why] = std::get<Again>(epoch.outcome);
    const bool not_all_came = setback == Setback::kNotAllCame;
    const bool lacks_state = setback == Setback::kLacksState;
    if (setback != Setback::kDamage) ++restarts;
    if ((not_all_came || lacks_state) && options.on_note)
      options.on_note(why + "; waiting for all again");
    // The original loss says more than which ranks did not return after it.
    const bool still_lacks = lacks_state || (past.lacking > 0 && not_all_came);
    past = {not_all_came && !past.why.empty() ? past.why : why, still_lacks ? past.lacking + 1 : 0,
            epoch.certificates, epoch.damaged};
  }
}

}  // namespace tombolo::run
