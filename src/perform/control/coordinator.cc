#include "perform/control/coordinator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace tombolo::control {
namespace {

constexpr SimTime kNever{std::numeric_limits<int64_t>::max()};

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, std::span<const Entry> journal, SimTime now)
    : options_(std::move(options)), now_(now), chairs_(options_.seats.size()) {
  const Status terms = options_.terms.check();
  CHECK(terms, "{}", terms.error().message);
  CHECK(!options_.seats.empty(), "a run without ranks");
  bool open = false;  // members may still work
  SimDuration longest = options_.terms.ceiling;
  for (const Entry& entry : journal) {
    epoch_ = std::max(epoch_, entry.epoch);
    step_ = std::max(step_, entry.step);
    if (entry.kind == Entry::Kind::kBegun) open = begun_ = true;
    longest = std::max(longest, entry.lease);
    if (entry.kind == Entry::Kind::kEnded || entry.kind == Entry::Kind::kClosed) open = false;
  }
  fence_ = now;
  if (open) {
    state_ = State::kFencing;
    fence_ = now + options_.terms.stretched(longest);
  } else {
    gather(now);
  }
}

void Coordinator::pass(SimTime now) {
  CHECK(now >= now_, "it is {} ns, and was {} ns already", now.ns, now_.ns);
  now_ = now;
}

void Coordinator::gather(SimTime now) {
  state_ = State::kGathering;
  gathering_since_ = now;
  ++epoch_;
  write({.kind = Entry::Kind::kBegun,
         .epoch = epoch_,
         .step = step_,
         .lease = options_.terms.ceiling});
}

bool Coordinator::came(MemberId member, size_t seat, const std::string& datacenter, SimTime now) {
  pass(now);
  if (state_ == State::kOver) return false;
  const auto known = present_.find(member);
  if (known != present_.end()) return known->second.seat == seat;
  CHECK(seat < chairs_.size(), "rank {} of {}", seat, chairs_.size());
  if (state_ != State::kGathering || chairs_[seat]) return false;
  if (options_.seats[seat].datacenter != datacenter) return false;
  chairs_[seat] = member;
  Present& present =
      present_.try_emplace(member, Present{seat, LeaseBook(options_.terms)}).first->second;
  present.lease.renew(now);  // so that a member that never beats is missed
  quiet_until_ = {};
  begin_if_complete(now);
  return true;
}

void Coordinator::begin_if_complete(SimTime now) {
  if (state_ != State::kGathering) return;
  for (const auto& member : chairs_) {
    if (!member) return;
    const Present& present = present_.at(*member);
    if (!present.knows || present.lease.over(now)) return;
  }
  state_ = State::kWorking;
  begun_ = true;
  orders_.emplace_back(Begin{epoch_});
}

void Coordinator::beat(MemberId member, const Beat& beat, SimTime now) {
  tick(now);  // a lease that is over is not renewed
  const auto at = present_.find(member);
  Grant grant{.epoch = epoch_, .sent = beat.sent};
  const bool here = at != present_.end() && state_ != State::kStopping && state_ != State::kOver &&
                    state_ != State::kFencing;
  const bool knows = here && beat.epoch == epoch_;
  // A member that does not know yet that it has a rank may learn so while all gather, and not
  // later.
  if (knows || (here && beat.epoch == 0 && state_ == State::kGathering)) {
    grant.length = at->second.lease.renew(now);
    if (knows) at->second.knows = true;
    begin_if_complete(now);
    grant.working = state_ == State::kWorking;
  }
  orders_.emplace_back(Answer{member, grant, here ? std::optional(at->second.seat) : std::nullopt});
}

void Coordinator::leave(MemberId member) {
  const auto at = present_.find(member);
  if (at == present_.end()) return;
  chairs_[at->second.seat].reset();
  present_.erase(at);
}

void Coordinator::ended(MemberId member, const std::string& how, SimTime now) {
  pass(now);
  const auto at = present_.find(member);
  if (at == present_.end()) return;
  if (state_ == State::kWorking || state_ == State::kGathering) {
    lose(member, how);
  } else {
    leave(member);
  }
  finish_stopping(now);
}

// While an epoch gathers no member works yet: the rank is vacant again, and gathering continues.
void Coordinator::lose(MemberId member, const std::string& how) {
  const size_t seat = present_.at(member).seat;
  const std::string reason = fmt::format("{} was lost: {}", options_.seats[seat].name, how);
  leave(member);
  write({.kind = Entry::Kind::kLost, .epoch = epoch_, .step = step_, .text = reason});
  orders_.emplace_back(Lost{seat, reason});
  if (state_ != State::kGathering) stop(reason);
}

void Coordinator::stop(const std::string& reason) {
  state_ = State::kStopping;
  orders_.emplace_back(Halt{epoch_, reason});
  if (++losses_ > options_.losses_max) give_up(reason);
}

void Coordinator::halt(const std::string& reason, SimTime now) {
  pass(now);
  if (state_ != State::kWorking && state_ != State::kGathering) return;
  stop(reason);
  finish_stopping(now);
}

void Coordinator::give_up(const std::string& reason) {
  write({.kind = Entry::Kind::kClosed, .epoch = epoch_, .step = step_, .text = reason});
  orders_.emplace_back(GiveUp{reason});
  state_ = State::kOver;
}

void Coordinator::finish_stopping(SimTime now) {
  if (state_ != State::kStopping) return;
  for (const auto& [member, present] : present_) {
    if (!present.lease.over(now)) return;
  }
  present_.clear();
  chairs_.assign(chairs_.size(), std::nullopt);
  write({.kind = Entry::Kind::kEnded, .epoch = epoch_, .step = step_});
  gather(now);
}

void Coordinator::all_ended(SimTime now) {
  if (state_ == State::kFencing) fence_ = now;
  tick(now);
}

void Coordinator::tick(SimTime now) {
  pass(now);
  if (state_ == State::kOver || (state_ == State::kWorking && now < quiet_until_)) return;
  if (state_ == State::kFencing && now >= fence_) {
    write({.kind = Entry::Kind::kEnded, .epoch = epoch_, .step = step_});
    gather(now);
  }
  std::vector<MemberId> silent;
  for (const auto& [member, present] : present_) {
    if (present.lease.over(now)) silent.push_back(member);
  }
  for (const MemberId member : silent) {
    if (state_ == State::kOver) return;
    if (state_ == State::kStopping || !present_.contains(member)) continue;
    lose(member, "it was silent, and its lease is over");
  }
  if (state_ == State::kOver) return;
  if (state_ == State::kWorking) {
    quiet_until_ = kNever;
    for (const auto& [member, present] : present_)
      quiet_until_ = std::min(quiet_until_, present.lease.end());
    return;
  }
  finish_stopping(now);
  begin_if_complete(now);
  const std::vector<std::string> absent = missing();
  if (state_ == State::kGathering && !absent.empty() && options_.gather_max &&
      now - gathering_since_ >= *options_.gather_max) {
    const std::string reason = fmt::format(
        "{} did not come within {:g} s: {} of {} are here", fmt::join(absent, ", "),
        seconds(*options_.gather_max).value, chairs_.size() - absent.size(), chairs_.size());
    if (!begun_) return give_up(reason);
    stop(reason);
    finish_stopping(now);
  }
}

SimTime Coordinator::due() const {
  if (state_ == State::kOver) return kNever;
  SimTime due = state_ == State::kFencing ? fence_ : kNever;
  for (const auto& [member, present] : present_) due = std::min(due, present.lease.end());
  if (state_ == State::kGathering && options_.gather_max)
    due = std::min(due, gathering_since_ + *options_.gather_max);
  return due;
}

void Coordinator::stepped(int64_t step) {
  if (step <= step_) return;
  step_ = step;
  losses_ = 0;
}

void Coordinator::done() { write({.kind = Entry::Kind::kDone, .epoch = epoch_, .step = step_}); }

void Coordinator::close(const std::string& reason) {
  if (state_ == State::kOver) return;
  write({.kind = Entry::Kind::kClosed, .epoch = epoch_, .step = step_, .text = reason});
  state_ = State::kOver;
}

const Seat& Coordinator::seat(size_t number) const {
  CHECK(number < options_.seats.size(), "rank {} of {}", number, options_.seats.size());
  return options_.seats[number];
}

std::vector<Instruction> Coordinator::orders() { return std::exchange(orders_, {}); }

std::vector<std::string> Coordinator::missing() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < chairs_.size(); ++i) {
    if (!chairs_[i]) names.push_back(options_.seats[i].name);
  }
  return names;
}

void Member::answered(const Grant& grant, SimTime now) {
  if (stopped_) return;
  if (over(now)) {  // what comes after the end does not bring it back
    stopped_ = true;
    return;
  }
  if (grant.length.ns == 0 || (epoch_ > 0 && grant.epoch != epoch_)) {
    // A refusal from before it had a rank may arrive after it got one.
    if (epoch_ > 0 && grant.sent > seated_) stopped_ = true;
    return;
  }
  lease_.granted(grant, now);
  if (grant.epoch == 0) return;
  if (epoch_ == 0 && !lease_.valid(now)) return;  // it came too late to begin with
  if (epoch_ == 0) seated_ = grant.sent;
  epoch_ = grant.epoch;
  working_ = working_ || grant.working;
}

}  // namespace tombolo::control
