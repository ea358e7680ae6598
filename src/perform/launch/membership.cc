#include "perform/launch/membership.h"

#include <algorithm>

#include "base/check.h"
#include "perform/launch/rank_session.h"
#include "spec/plan/plan_file.h"

namespace tombolo::launch {
namespace {

using control::Entry;

control::CoordinatorOptions options_of(const plan::Plan& plan) {
  control::CoordinatorOptions options;
  // The launcher counts restarts itself, from one checkpoint.
  options.losses_max = 2'000'000;
  for (const plan::Placement& placement : plan.ranks) {
    options.seats.push_back({rank_name(plan, placement.rank), placement.datacenter});
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<Membership>> Membership::open(const plan::Plan& plan,
                                                     const std::string& output, bool all_ended,
                                                     const Clock& clock) {
  std::optional<control::Journal> journal;
  std::vector<Entry> entries;
  if (!output.empty()) {
    journal.emplace(TRY(control::Journal::open(journal_path(output))));
    for (const std::string& record : journal->records()) {
      entries.push_back(TRY(control::parse_record(record, journal_path(output))));
    }
  }
  const std::string digest = plan::plan_digest(plan);
  const auto cut_short = [&] {
    return !entries.empty() && entries.front().kind == Entry::Kind::kRun &&
           entries.front().text == digest && entries.back().kind != Entry::Kind::kClosed;
  };
  const bool goes_on = cut_short();
  if (journal && !goes_on) {
    // Epochs go on counting: what is left of another run's shall not be mistaken for this one's.
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
      std::move(journal), control::Coordinator(options_of(plan), entries, clock.now()), clock));
  self->goes_on_ = goes_on;
  if (all_ended) self->coordinator_.all_ended(clock.now());
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
  for (const control::Order& order : coordinator_.orders()) {
    if (const auto* write = std::get_if<control::Write>(&order)) {
      if (journal_ && status_) status_ = journal_->append(control::to_record(write->entry));
    }
    // What could not be written is told to nobody.
    if (!status_) return std::nullopt;
    const auto* begun = std::get_if<control::Write>(&order);
    if (begun && begun->entry.kind == Entry::Kind::kBegun) lost_.reset();
    const auto* lost = std::get_if<control::Lost>(&order);
    if (lost && !lost_) lost_ = Lost{static_cast<int32_t>(lost->seat), lost->reason};
    if (const auto* answer = std::get_if<control::Answer>(&order)) grant = answer->grant;
  }
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
  const auto seat = static_cast<size_t>(rank);
  coordinator_.came(member(rank), seat, coordinator_.seat(seat).datacenter, clock_.now());
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

std::optional<Membership::Lost> Membership::tick() {
  std::lock_guard lock(mutex_);
  coordinator_.tick(clock_.now());
  carry_out();
  return lost_;
}

bool Membership::begun() const {
  std::lock_guard lock(mutex_);
  return coordinator_.state() == control::Coordinator::State::kWorking;
}

void Membership::stepped(int64_t step) {
  std::lock_guard lock(mutex_);
  coordinator_.stepped(step);
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

}  // namespace tombolo::launch
