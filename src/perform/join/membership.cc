#include "perform/join/membership.h"

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "spec/plan/plan_file.h"
#include "spec/plan/rank_name.h"

namespace tombolo::join {
namespace {

using control::Entry;

control::CoordinatorOptions coordinator_options(const plan::Plan& plan,
                                                const MembershipOptions& wanted) {
  control::CoordinatorOptions options{
      .terms = wanted.terms, .losses_max = wanted.losses_max, .gather_max = wanted.gather_max};
  for (const layout::Placement& placement : plan.ranks) {
    options.seats.push_back({plan::rank_name(plan, placement.rank), placement.datacenter});
  }
  return options;
}

Result<std::vector<Entry>> entries_of(const std::vector<std::string>& records,
                                      const std::string& path) {
  std::vector<Entry> entries;
  for (const std::string& record : records) {
    entries.push_back(TRY(control::parse_record(record, path)));
  }
  return entries;
}

// A run of this Plan that was not closed.
bool is_cut_short(const std::vector<Entry>& entries, const std::string& digest) {
  return !entries.empty() && entries.front().kind == Entry::Kind::kRun &&
         entries.front().text == digest && entries.back().kind != Entry::Kind::kClosed;
}

Membership::Earlier earlier_of(const std::vector<Entry>& entries, const std::string& digest) {
  const bool goes_on = is_cut_short(entries, digest);
  return {goes_on, goes_on && entries.back().kind == Entry::Kind::kDone};
}

}  // namespace

Result<Membership::Earlier> Membership::earlier_run(const plan::Plan& plan,
                                                    const std::string& output) {
  const std::string path = journal_path(output);
  if (!std::filesystem::exists(path)) return Earlier{};
  const control::JournalText text = TRY(control::read_journal(TRY(read_file(path)), path));
  return earlier_of(TRY(entries_of(text.records, path)), plan::plan_digest(plan));
}

Result<std::unique_ptr<Membership>> Membership::open(const plan::Plan& plan,
                                                     const MembershipOptions& options,
                                                     const Clock& clock) {
  const std::string& output = options.output;
  std::optional<control::Journal> journal;
  std::vector<Entry> entries;
  if (!output.empty()) {
    journal.emplace(TRY(control::Journal::open(journal_path(output))));
    entries = TRY(entries_of(journal->records(), journal_path(output)));
  }
  const std::string digest = plan::plan_digest(plan);
  const Earlier earlier = earlier_of(entries, digest);
  if (journal && !earlier.goes_on) {
    // Epoch numbers continue, so that what is left of another run's epochs is not mistaken for this
    // one's.
    const auto newest = std::max_element(entries.begin(), entries.end(),
                                         [](auto& a, auto& b) { return a.epoch < b.epoch; });
    const Entry run{
        .kind = Entry::Kind::kRun, .epoch = entries.empty() ? 0 : newest->epoch, .text = digest};
    const bool open = !entries.empty() && entries.back().kind != Entry::Kind::kClosed;
    TRY(journal->begin_anew());
    TRY(journal->append(control::to_record(run)));
    entries = {run};
    if (open) entries.push_back({.kind = Entry::Kind::kBegun, .epoch = run.epoch});
  }
  std::unique_ptr<Membership> self(new Membership(
      std::move(journal),
      control::Coordinator(coordinator_options(plan, options), entries, clock.now()), clock));
  self->goes_on_ = earlier.goes_on;
  self->was_done_ = earlier.was_done;
  if (options.all_ended) self->coordinator_.all_ended(clock.now());
  self->carry_out();
  TRY(self->status_);
  return self;
}

control::MemberId Membership::member(int32_t rank) const {
  CHECK(rank >= 0 && static_cast<size_t>(rank) < coordinator_.seats(), "rank {} of {}", rank,
        coordinator_.seats());
  return coordinator_.epoch() << 20 | static_cast<uint64_t>(rank);
}

// What the coordinator has decided; the answer to a beat, if there is one.
std::optional<control::Grant> Membership::carry_out() {
  std::optional<control::Grant> grant;
  std::optional<control::Lost> lost;
  bool halted = false;
  for (const control::Instruction& order : coordinator_.orders()) {
    if (const auto* write = std::get_if<control::Write>(&order)) {
      if (journal_ && status_) status_ = journal_->append(control::to_record(write->entry));
    }
    // What could not be written is not announced.
    if (!status_) return std::nullopt;
    if (const auto* who = std::get_if<control::Lost>(&order)) lost = *who;
    if (const auto* halt = std::get_if<control::Halt>(&order)) {
      halted = true;
      if (!halted_) halted_ = Halted{.reason = halt->reason};
      if (lost && !halted_->lost) halted_->lost = static_cast<int32_t>(lost->seat);
    }
    if (const auto* over = std::get_if<control::GiveUp>(&order)) {
      halted = true;
      if (!halted_) halted_ = Halted{.reason = over->reason};
      halted_->again = false;
    }
    if (const auto* answer = std::get_if<control::Answer>(&order)) grant = answer->grant;
  }
  if (!lost || halted) return grant;
  coordinator_.halt(lost->reason, clock_.now());
  static_cast<void>(carry_out());
  if (halted_ && !halted_->lost) halted_->lost = static_cast<int32_t>(lost->seat);
  return grant;
}

std::optional<SimDuration> Membership::wait() const {
  std::lock_guard lock(mutex_);
  if (coordinator_.state() == control::Coordinator::State::kGathering) return std::nullopt;
  return std::max(coordinator_.due() - clock_.now(), SimDuration{1'000'000});
}

uint64_t Membership::epoch() const {
  std::lock_guard lock(mutex_);
  return coordinator_.epoch();
}

void Membership::came(int32_t rank) {
  std::lock_guard lock(mutex_);
  const control::MemberId who = member(rank);
  const auto seat = static_cast<size_t>(rank);
  coordinator_.came(who, seat, coordinator_.seat(seat).datacenter, clock_.now());
  carry_out();
}

control::Grant Membership::beat(int32_t rank, const control::Beat& beat) {
  std::lock_guard lock(mutex_);
  coordinator_.beat(member(rank), beat, clock_.now());
  return carry_out().value_or(control::Grant{.epoch = coordinator_.epoch(), .sent = beat.sent});
}

void Membership::ended(int32_t rank, const std::string& how) {
  std::lock_guard lock(mutex_);
  coordinator_.ended(member(rank), how, clock_.now());
  carry_out();
}

void Membership::halt(const std::string& reason) {
  std::lock_guard lock(mutex_);
  coordinator_.halt(reason, clock_.now());
  carry_out();
}

void Membership::tick() {
  std::lock_guard lock(mutex_);
  coordinator_.tick(clock_.now());
  carry_out();
}

void Membership::begin() {
  std::lock_guard lock(mutex_);
  CHECK(!halted_ || halted_->again, "the run is over: {}", halted_->reason);
  halted_.reset();
}

std::optional<Membership::Halted> Membership::halted() const {
  std::lock_guard lock(mutex_);
  return halted_;
}

bool Membership::begun() const {
  std::lock_guard lock(mutex_);
  return coordinator_.state() == control::Coordinator::State::kWorking;
}

void Membership::stepped(int64_t step) {
  std::lock_guard lock(mutex_);
  coordinator_.stepped(step);
}

void Membership::done() {
  std::lock_guard lock(mutex_);
  coordinator_.done();
  carry_out();
}

void Membership::close(const std::string& reason) {
  std::lock_guard lock(mutex_);
  coordinator_.close(reason);
  carry_out();
}

Status Membership::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

}  // namespace tombolo::join
