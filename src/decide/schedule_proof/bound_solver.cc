#include "decide/schedule_proof/bound_solver.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::schedule_proof::detail {
namespace {

// 1 1 2 1 1 2 4 ...: how long the search runs before it restarts with what it has learned
// (Luby, Sinclair, Zuckerman 1993). Counted from 1.
int64_t luby(int64_t index) {
  int64_t power = 1;
  while (2 * power - 1 < index) power *= 2;
  return 2 * power - 1 == index ? power : luby(index - power + 1);
}

}  // namespace

// --- what is given -------------------------------------------------------------------------------

Integer BoundSolver::add_integer(int64_t min, int64_t max) {
  const auto x = static_cast<Integer>(bounds_.size() / 2);
  bounds_.insert(bounds_.end(), {min, -max});
  last_.resize(bounds_.size(), -1);
  differences_of_.resize(bounds_.size());
  watches_.resize(bounds_.size());
  woken_by_.resize(bounds_.size());
  needed_.resize(bounds_.size(), 0);
  needed_step_.resize(bounds_.size(), -1);
  is_boolean_.push_back(false);
  phase_.push_back(true);
  activity_.push_back(0);
  heap_at_.push_back(-1);
  return x;
}

Integer BoundSolver::add_boolean() {
  const Integer x = add_integer(0, 1);
  is_boolean_[static_cast<size_t>(x)] = true;
  insert(x);
  return x;
}

void BoundSolver::add_difference(Integer from, Integer to, int64_t distance,
                                 std::optional<Atom> guard) {
  const auto index = static_cast<int32_t>(differences_.size());
  differences_.push_back({from, to, distance, guard});
  differences_of_[static_cast<size_t>(2 * from)].push_back(index);
  differences_of_[static_cast<size_t>(2 * to + 1)].push_back(index);
  if (guard) differences_of_[static_cast<size_t>(guard->side)].push_back(index);
  if (!follow(index)) hopeless_ = true;
}

void BoundSolver::add_clause(std::vector<Atom> atoms) {
  CHECK(level() == 0, "a clause comes after {} guesses", level());
  std::erase_if(atoms, [&](Atom atom) { return fails(atom); });
  if (std::any_of(atoms.begin(), atoms.end(), [&](Atom atom) { return holds(atom); })) return;
  if (atoms.empty()) {
    hopeless_ = true;
  } else if (atoms.size() == 1) {
    if (!push(atoms[0], {})) hopeless_ = true;
  } else {
    clauses_.push_back({std::move(atoms)});
    watch(static_cast<int32_t>(clauses_.size()) - 1);
  }
}

void BoundSolver::add_propagator(std::unique_ptr<Propagator> propagator,
                                 std::span<const int32_t> sides) {
  const auto index = static_cast<int32_t>(propagators_.size());
  propagators_.push_back(std::move(propagator));
  for (const int32_t side : sides) woken_by_[static_cast<size_t>(side)].push_back(index);
  awake_.push_back(index);
  is_awake_.push_back(true);
}

bool BoundSolver::restrict_to(Atom atom) {
  backtrack(0);
  if (hopeless_ || !push(atom, {}) || !propagate()) hopeless_ = true;
  return !hopeless_;
}

// --- what follows --------------------------------------------------------------------------------

bool BoundSolver::push(Atom atom, Reason reason) {
  const auto side = static_cast<size_t>(atom.side);
  if (bounds_[side] >= atom.value) return true;
  if (fails(atom)) {
    conflict_.clear();
    if (reason.why != Why::kGuess) explain(atom, reason, conflict_);
    conflict_.push_back(negation(atom));
    return false;
  }
  steps_.push_back({atom.side, last_[side], atom.value, bounds_[side], level(), reason});
  last_[side] = static_cast<int32_t>(steps_.size()) - 1;
  bounds_[side] = atom.value;
  return true;
}

bool BoundSolver::enforce(Atom atom, std::span<const Atom> reasons) {
  if (holds(atom)) return true;
  if (level() == 0) return push(atom, {Why::kStored, 0, 0});  // its reasons are never asked for
  const auto first = static_cast<int32_t>(stored_.size());
  stored_.insert(stored_.end(), reasons.begin(), reasons.end());
  return push(atom, {Why::kStored, first, static_cast<int64_t>(reasons.size())});
}

bool BoundSolver::refute(std::span<const Atom> reasons) {
  conflict_.assign(reasons.begin(), reasons.end());
  return false;
}

bool BoundSolver::propagate() {
  while (true) {
    while (next_ < steps_.size()) {
      const Step step = steps_[next_++];
      for (const int32_t propagator : woken_by_[static_cast<size_t>(step.side)]) {
        if (is_awake_[static_cast<size_t>(propagator)]) continue;
        is_awake_[static_cast<size_t>(propagator)] = true;
        awake_.push_back(propagator);
      }
      if (!follow_differences(step) || !follow_clauses(step.side)) return false;
    }
    if (awake_.empty()) return true;
    const auto propagator = static_cast<size_t>(awake_.back());
    awake_.pop_back();
    is_awake_[propagator] = false;
    if (!propagators_[propagator]->propagate(*this)) return false;
  }
}

bool BoundSolver::follow_differences(const Step& step) {
  for (const int32_t index : differences_of_[static_cast<size_t>(step.side)]) {
    if (!follow(index)) return false;
  }
  return true;
}

bool BoundSolver::follow(int32_t index) {
  const Difference& d = differences_[static_cast<size_t>(index)];
  if (!d.guard || holds(*d.guard)) {
    const Reason reason{Why::kDifference, index};
    return push(at_least(d.to, min(d.from) + d.distance), reason) &&
           push(at_most(d.from, max(d.to) - d.distance), reason);
  }
  if (min(d.from) + d.distance <= max(d.to)) return true;
  return push(negation(*d.guard), {Why::kDifference, index, min(d.from)});
}

bool BoundSolver::follow_clauses(int32_t side) {
  std::vector<Watch>& watches = watches_[static_cast<size_t>(side)];
  size_t kept = 0;
  for (size_t i = 0; i < watches.size(); ++i) {
    const Watch w = watches[i];
    watches[kept++] = w;
    if (bound(side) < w.value || holds(w.other)) continue;
    std::vector<Atom>& atoms = clauses_[static_cast<size_t>(w.clause)].atoms;
    if (negation(atoms[0]) == Atom{side, w.value}) std::swap(atoms[0], atoms[1]);
    if (holds(atoms[0])) {
      watches[kept - 1].other = atoms[0];
      continue;
    }
    const auto fresh =
        std::find_if(atoms.begin() + 2, atoms.end(), [&](Atom atom) { return !fails(atom); });
    if (fresh != atoms.end()) {
      std::swap(atoms[1], *fresh);
      const Atom falls = negation(atoms[1]);
      watches_[static_cast<size_t>(falls.side)].push_back({falls.value, w.clause, atoms[0]});
      --kept;
      continue;
    }
    if (!push(atoms[0], {Why::kClause, w.clause})) {
      while (++i < watches.size()) watches[kept++] = watches[i];
      watches.resize(kept);
      return false;
    }
  }
  watches.resize(kept);
  return true;
}

void BoundSolver::watch(int32_t clause) {
  const std::vector<Atom>& atoms = clauses_[static_cast<size_t>(clause)].atoms;
  for (size_t i = 0; i < 2; ++i) {
    const Atom falls = negation(atoms[i]);
    watches_[static_cast<size_t>(falls.side)].push_back({falls.value, clause, atoms[1 - i]});
  }
}

// --- what went wrong -----------------------------------------------------------------------------

// Why the atom held, which the step with this reason made so; only as much as the atom asks for.
void BoundSolver::explain(Atom atom, const Reason& reason, std::vector<Atom>& out) const {
  if (reason.why == Why::kClause) {
    for (const Atom other : clauses_[static_cast<size_t>(reason.index)].atoms) {
      if (other.side != atom.side) out.push_back(negation(other));
    }
  } else if (reason.why == Why::kStored) {
    const auto first = stored_.begin() + reason.index;
    out.insert(out.end(), first, first + reason.extra);
  } else {
    const Difference& d = differences_[static_cast<size_t>(reason.index)];
    if (atom.side == 2 * d.to) {
      out.push_back({2 * d.from, atom.value - d.distance});
      if (d.guard) out.push_back(*d.guard);
    } else if (atom.side == 2 * d.from + 1) {
      out.push_back({2 * d.to + 1, atom.value - d.distance});
      if (d.guard) out.push_back(*d.guard);
    } else {
      out.push_back(at_least(d.from, reason.extra));
      out.push_back(at_most(d.to, reason.extra + d.distance - 1));
    }
  }
}

int32_t BoundSolver::step_of(Atom atom) const {
  int32_t step = last_[static_cast<size_t>(atom.side)];
  while (step >= 0 && steps_[static_cast<size_t>(step)].before >= atom.value) {
    step = steps_[static_cast<size_t>(step)].previous;
  }
  return step;
}

void BoundSolver::need(Atom atom) {
  const int32_t step = step_of(atom);
  if (step < 0 || steps_[static_cast<size_t>(step)].level == 0) return;
  const auto side = static_cast<size_t>(atom.side);
  const int32_t known = needed_step_[side];
  if (known >= 0 && needed_[side] >= atom.value) return;
  const bool was_open = known >= 0 && steps_[static_cast<size_t>(known)].level == level();
  if (!was_open && steps_[static_cast<size_t>(step)].level == level()) ++open_;
  if (known < 0) needed_sides_.push_back(atom.side);
  needed_[side] = atom.value;
  needed_step_[side] = step;
  bump(atom.side / 2);
}

// Whether the atom, needed, follows from others that are.
bool BoundSolver::is_implied(Atom atom) {
  const int32_t index = needed_step_[static_cast<size_t>(atom.side)];
  const Step& step = steps_[static_cast<size_t>(index)];
  if (step.reason.why == Why::kGuess) return false;
  scratch_.clear();
  explain(atom, step.reason, scratch_);
  return std::all_of(scratch_.begin(), scratch_.end(), [&](Atom reason) {
    const auto side = static_cast<size_t>(reason.side);
    if (needed_step_[side] >= 0 && needed_step_[side] < index && needed_[side] >= reason.value) {
      return true;
    }
    const int32_t made = step_of(reason);
    return made < 0 || steps_[static_cast<size_t>(made)].level == 0;
  });
}

bool BoundSolver::learn() {
  ++conflicts_;
  // A propagator may find late what held before the last guess.
  int32_t latest = 0;
  for (const Atom atom : conflict_) {
    const int32_t step = step_of(atom);
    if (step >= 0) latest = std::max(latest, steps_[static_cast<size_t>(step)].level);
  }
  if (latest == 0) return false;
  // The reasons' bounds are read before the steps that they explain go.
  const std::vector<Atom> conflict = conflict_;
  backtrack(latest);

  open_ = 0;
  for (const Atom atom : conflict) need(atom);
  auto at = static_cast<int32_t>(steps_.size());
  Atom last;
  while (true) {
    const Step* step = nullptr;
    do {
      --at;
      step = &steps_[static_cast<size_t>(at)];
    } while (needed_step_[static_cast<size_t>(step->side)] != at);
    const auto side = static_cast<size_t>(step->side);
    last = {step->side, needed_[side]};
    if (open_ == 1) break;
    --open_;
    needed_step_[side] = -1;
    std::vector<Atom> reasons;
    explain(last, step->reason, reasons);
    for (const Atom atom : reasons) need(atom);
  }

  std::sort(needed_sides_.begin(), needed_sides_.end());
  needed_sides_.erase(std::unique(needed_sides_.begin(), needed_sides_.end()), needed_sides_.end());
  std::erase_if(needed_sides_,
                [&](int32_t side) { return needed_step_[static_cast<size_t>(side)] < 0; });

  std::vector<Atom> atoms{negation(last)};
  int32_t back = 0;
  std::vector<int32_t> levels;
  for (const int32_t side : needed_sides_) {
    const Atom atom{side, needed_[static_cast<size_t>(side)]};
    if (atom.side == last.side || is_implied(atom)) continue;
    atoms.push_back(negation(atom));
    const int32_t made_at =
        steps_[static_cast<size_t>(needed_step_[static_cast<size_t>(side)])].level;
    levels.push_back(made_at);
    if (made_at > back) {
      back = made_at;
      std::swap(atoms[1], atoms.back());
    }
  }
  for (const int32_t side : needed_sides_) needed_step_[static_cast<size_t>(side)] = -1;
  needed_sides_.clear();
  std::sort(levels.begin(), levels.end());
  const auto distinct = std::unique(levels.begin(), levels.end()) - levels.begin();

  backtrack(back);
  bump_by_ *= 1 / 0.95;
  if (atoms.size() == 1) return push(atoms[0], {});
  const auto index = static_cast<int32_t>(clauses_.size());
  clauses_.push_back({atoms, static_cast<int32_t>(distinct) + 1});
  ++learned_;
  watch(index);
  return push(atoms[0], {Why::kClause, index});
}

// --- the search ----------------------------------------------------------------------------------

void BoundSolver::backtrack(int32_t to) {
  for (const int32_t propagator : awake_) is_awake_[static_cast<size_t>(propagator)] = false;
  awake_.clear();
  if (level() <= to) return;
  const size_t start = level_starts_[static_cast<size_t>(to)];
  while (steps_.size() > start) {
    const Step& step = steps_.back();
    const auto side = static_cast<size_t>(step.side);
    bounds_[side] = step.before;
    last_[side] = step.previous;
    const Integer x = step.side / 2;
    if (is_boolean_[static_cast<size_t>(x)]) {
      phase_[static_cast<size_t>(x)] = step.side % 2 == 0;
      if (heap_at_[static_cast<size_t>(x)] < 0) insert(x);
    }
    steps_.pop_back();
  }
  stored_.resize(stored_starts_[static_cast<size_t>(to)]);
  level_starts_.resize(static_cast<size_t>(to));
  stored_starts_.resize(static_cast<size_t>(to));
  next_ = steps_.size();
}

// Half of what was learned: clauses that span many guesses seldom say something again.
void BoundSolver::forget_clauses() {
  std::vector<int32_t> spans;
  for (const Clause& clause : clauses_) {
    if (clause.levels > 0) spans.push_back(clause.levels);
  }
  std::nth_element(spans.begin(), spans.begin() + static_cast<ptrdiff_t>(spans.size() / 2),
                   spans.end());
  const int32_t median = std::max(spans[spans.size() / 2], 3);
  std::erase_if(clauses_, [&](const Clause& clause) {
    return clause.levels >= median || std::any_of(clause.atoms.begin(), clause.atoms.end(),
                                                  [&](Atom atom) { return holds(atom); });
  });
  learned_ = 0;
  for (std::vector<Watch>& watches : watches_) watches.clear();
  for (size_t i = 0; i < clauses_.size(); ++i) {
    // What holds for good has gone; two that may still hold come first.
    std::stable_partition(clauses_[i].atoms.begin(), clauses_[i].atoms.end(),
                          [&](Atom atom) { return !fails(atom); });
    watch(static_cast<int32_t>(i));
    if (clauses_[i].levels > 0) ++learned_;
  }
  learned_max_ = std::max(learned_max_ + 200, learned_ * 3 / 2);
}

std::optional<Atom> BoundSolver::guess() {
  while (!heap_.empty()) {
    const Integer x = heap_.front();
    heap_at_[static_cast<size_t>(x)] = -1;
    if (heap_.size() > 1) {
      heap_.front() = heap_.back();
      heap_at_[static_cast<size_t>(heap_.front())] = 0;
    }
    heap_.pop_back();
    if (!heap_.empty()) sift_down(0);
    if (min(x) < max(x)) return phase_[static_cast<size_t>(x)] ? at_least(x, 1) : at_most(x, 0);
  }
  return std::nullopt;
}

BoundSolver::Outcome BoundSolver::solve(int64_t decisions_max) {
  backtrack(0);
  if (hopeless_) return Outcome::kNone;
  for (size_t i = 0; i < propagators_.size(); ++i) {
    is_awake_[i] = true;
    awake_.push_back(static_cast<int32_t>(i));
  }
  int64_t restarts = 0;
  int64_t until_restart = 100;
  while (true) {
    while (!propagate()) {
      if (!learn()) {
        hopeless_ = true;
        return Outcome::kNone;
      }
      --until_restart;
    }
    if (until_restart <= 0) {
      until_restart = 100 * luby(++restarts + 1);
      backtrack(0);
      if (learned_ > learned_max_) forget_clauses();
      continue;
    }
    const std::optional<Atom> atom = guess();
    if (!atom) return Outcome::kSolution;
    if (decisions_ >= decisions_max) {
      insert(atom->side / 2);
      return Outcome::kStopped;
    }
    ++decisions_;
    level_starts_.push_back(steps_.size());
    stored_starts_.push_back(stored_.size());
    push(*atom, {});
  }
}

// --- which Boolean is next: a heap by activity ---------------------------------------------------

void BoundSolver::bump(Integer x) {
  const auto i = static_cast<size_t>(x);
  if (!is_boolean_[i]) return;
  activity_[i] += bump_by_;
  if (activity_[i] > 1e100) {
    for (double& activity : activity_) activity *= 1e-100;
    bump_by_ *= 1e-100;
  }
  if (heap_at_[i] >= 0) sift_up(static_cast<size_t>(heap_at_[i]));
}

void BoundSolver::insert(Integer x) {
  if (heap_at_[static_cast<size_t>(x)] >= 0) return;
  heap_.push_back(x);
  heap_at_[static_cast<size_t>(x)] = static_cast<int32_t>(heap_.size()) - 1;
  sift_up(heap_.size() - 1);
}

void BoundSolver::sift_up(size_t at) {
  const auto more = [&](Integer x, Integer y) {
    return activity_[static_cast<size_t>(x)] > activity_[static_cast<size_t>(y)];
  };
  while (at > 0 && more(heap_[at], heap_[(at - 1) / 2])) {
    std::swap(heap_[at], heap_[(at - 1) / 2]);
    heap_at_[static_cast<size_t>(heap_[at])] = static_cast<int32_t>(at);
    at = (at - 1) / 2;
  }
  heap_at_[static_cast<size_t>(heap_[at])] = static_cast<int32_t>(at);
}

void BoundSolver::sift_down(size_t at) {
  const auto more = [&](size_t i, size_t j) {
    return activity_[static_cast<size_t>(heap_[i])] > activity_[static_cast<size_t>(heap_[j])];
  };
  while (true) {
    size_t best = at;
    for (const size_t child : {2 * at + 1, 2 * at + 2}) {
      if (child < heap_.size() && more(child, best)) best = child;
    }
    if (best == at) return;
    std::swap(heap_[at], heap_[best]);
    heap_at_[static_cast<size_t>(heap_[at])] = static_cast<int32_t>(at);
    heap_at_[static_cast<size_t>(heap_[best])] = static_cast<int32_t>(best);
    at = best;
  }
}

}  // namespace tombolo::schedule_proof::detail
