#include "decide/schedule_proof/job_shop.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/check.h"
#include "decide/schedule_proof/bound_solver.h"
#include "decide/schedule_proof/machine.h"

namespace tombolo::schedule_proof::detail {
namespace {

// reaches[a][b]: whether precedences put a before b.
std::vector<std::vector<bool>> closure(const JobShop& shop) {
  const size_t n = shop.durations.size();
  std::vector<std::vector<int32_t>> after(n);
  std::vector<int32_t> waits_for(n, 0);
  for (const JobShop::Precedence& p : shop.precedences) {
    after[static_cast<size_t>(p.before)].push_back(p.after);
    ++waits_for[static_cast<size_t>(p.after)];
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < n; ++i) {
    if (waits_for[i] == 0) order.push_back(i);
  }
  for (size_t at = 0; at < order.size(); ++at) {
    for (const int32_t next : after[order[at]]) {
      if (--waits_for[static_cast<size_t>(next)] == 0) order.push_back(static_cast<size_t>(next));
    }
  }
  CHECK(order.size() == n, "{} of {} operations wait for one another", n - order.size(), n);
  std::vector<std::vector<bool>> reaches(n, std::vector<bool>(n, false));
  for (size_t at = n; at-- > 0;) {
    std::vector<bool>& from = reaches[order[at]];
    for (const int32_t next : after[order[at]]) {
      const std::vector<bool>& further = reaches[static_cast<size_t>(next)];
      from[static_cast<size_t>(next)] = true;
      for (size_t i = 0; i < n; ++i) {
        if (further[i]) from[i] = true;
      }
    }
  }
  return reaches;
}

// Of every operation that takes a place: those that took one before and have not given it back are
// fewer than there are.
class StoreLimit : public Propagator {
 public:
  struct Taker {
    std::vector<Atom> taken_before, given_before;
  };
  StoreLimit(Taker taker, int64_t places) : taker_(std::move(taker)), places_(places) {}

  bool propagate(BoundSolver& solver) override {
    // Taken for certain, and given back at most.
    int64_t held = 0;
    reasons_.clear();
    for (const Atom atom : taker_.taken_before) {
      if (!solver.holds(atom)) continue;
      ++held;
      reasons_.push_back(atom);
    }
    for (const Atom atom : taker_.given_before) {
      if (solver.fails(atom)) {
        reasons_.push_back(negation(atom));
      } else {
        --held;
      }
    }
    if (held < places_ - 1) return true;
    if (held >= places_) return solver.refute(reasons_);
    for (const Atom atom : taker_.taken_before) {
      if (!solver.holds(atom) && !solver.enforce(negation(atom), reasons_)) return false;
    }
    for (const Atom atom : taker_.given_before) {
      if (!solver.fails(atom) && !solver.enforce(atom, reasons_)) return false;
    }
    return true;
  }

 private:
  Taker taker_;
  int64_t places_;
  std::vector<Atom> reasons_;
};

class Model {
 public:
  explicit Model(const JobShop& shop)
      : shop_(shop), count_(shop.durations.size()), before_(count_ * count_, Atom{-1, 0}) {
    // One after the other, with all the lags.
    horizon_ = std::accumulate(shop.durations.begin(), shop.durations.end(), int64_t{0});
    for (const JobShop::Precedence& p : shop.precedences) horizon_ += p.lag;
    for (size_t i = 0; i <= count_; ++i) solver_.add_integer(0, horizon_);
    end_ = static_cast<Integer>(count_);
    always_ = at_least(solver_.add_integer(1, 1), 1);
    for (size_t i = 0; i < count_; ++i) {
      solver_.add_difference(static_cast<Integer>(i), end_, shop.durations[i]);
    }
    for (const JobShop::Precedence& p : shop.precedences) {
      solver_.add_difference(p.before, p.after, duration(p.before) + p.lag);
    }
    const auto reaches = closure(shop);
    for (const auto& machine : shop.machines) add_machine(machine, reaches);
    for (const JobShop::Alike& a : shop.alike) {
      const Atom one = decided(a[0], a[1]);
      const Atom other = decided(a[2], a[3]);
      solver_.add_clause({negation(one), other});
      solver_.add_clause({one, negation(other)});
    }
    for (const JobShop::Store& store : shop.stores) add_store(store);
  }

  Timetable run(int64_t bound, int64_t nodes_max) {
    Timetable out;
    out.bound = bound;
    bool open = solver_.restrict_to(at_least(end_, bound));
    while (open) {
      const BoundSolver::Outcome outcome = solver_.solve(nodes_max);
      if (outcome == BoundSolver::Outcome::kStopped) break;
      open = outcome == BoundSolver::Outcome::kSolution;
      if (!open) break;
      out.starts.clear();
      for (size_t i = 0; i < count_; ++i) {
        out.starts.push_back(solver_.min(static_cast<Integer>(i)));
      }
      out.makespan = solver_.min(end_);
      open = out.makespan > bound && solver_.restrict_to(at_most(end_, out.makespan - 1));
      // What follows without a guess holds for all that is shorter than what we have.
      if (open) out.bound = std::max(out.bound, solver_.min(end_));
    }
    out.proven = !open && !out.starts.empty();
    if (!open) out.bound = out.starts.empty() ? horizon_ : out.makespan;
    out.nodes = solver_.decisions();
    return out;
  }

 private:
  int64_t duration(int32_t operation) const {
    return shop_.durations[static_cast<size_t>(operation)];
  }
  Atom& before(int32_t i, int32_t j) {
    return before_[static_cast<size_t>(i) * count_ + static_cast<size_t>(j)];
  }
  Atom decided(int32_t i, int32_t j) {
    CHECK(before(i, j).side >= 0, "operations {} and {} share no machine", i, j);
    return before(i, j);
  }

  void add_machine(const std::vector<int32_t>& machine,
                   const std::vector<std::vector<bool>>& reaches) {
    std::vector<int32_t> sides;
    for (const int32_t i : machine) {
      sides.insert(sides.end(), {2 * i, 2 * i + 1});
      for (const int32_t j : machine) {
        if (reaches[static_cast<size_t>(i)][static_cast<size_t>(j)]) {
          before(i, j) = always_;
          before(j, i) = negation(always_);
        } else if (i < j && !reaches[static_cast<size_t>(j)][static_cast<size_t>(i)]) {
          decide_between(i, j);
          sides.insert(sides.end(), {before(i, j).side, before(j, i).side});
        }
      }
    }
    forbid_circles(machine);
    std::vector<Machine::Operation> operations;
    std::vector<Atom> order;
    for (const int32_t i : machine) {
      operations.push_back({i, duration(i)});
      for (const int32_t j : machine) order.push_back(i == j ? negation(always_) : before(i, j));
    }
    solver_.add_propagator(std::make_unique<Machine>(std::move(operations), std::move(order)),
                           sides);
  }

  void decide_between(int32_t i, int32_t j) {
    const Integer first = solver_.add_boolean();
    before(i, j) = at_least(first, 1);
    before(j, i) = at_most(first, 0);
    solver_.add_difference(i, j, duration(i), before(i, j));
    solver_.add_difference(j, i, duration(j), before(j, i));
    // To begin with: by when they can be over, and by when they must.
    const int64_t lean = solver_.min(i) + solver_.max(i) - solver_.min(j) - solver_.max(j);
    solver_.prefer(lean <= 0 ? before(i, j) : before(j, i));
  }

  void forbid_circles(const std::vector<int32_t>& machine) {
    for (const int32_t i : machine) {
      for (const int32_t j : machine) {
        for (const int32_t k : machine) {
          // Each circle once: it begins at its smallest member.
          if (i >= j || i >= k || j == k) continue;
          solver_.add_clause({negation(before(i, j)), negation(before(j, k)), before(i, k)});
        }
      }
    }
  }

  void add_store(const JobShop::Store& store) {
    for (const int32_t taker : store.take) {
      StoreLimit::Taker limits;
      std::vector<int32_t> sides;
      for (const int32_t other : store.take) {
        if (other == taker) continue;
        limits.taken_before.push_back(decided(other, taker));
        sides.push_back(limits.taken_before.back().side);
      }
      for (const int32_t other : store.give) {
        limits.given_before.push_back(decided(other, taker));
        sides.push_back(limits.given_before.back().side ^ 1);
      }
      solver_.add_propagator(std::make_unique<StoreLimit>(std::move(limits), store.places), sides);
    }
  }

  const JobShop& shop_;
  size_t count_;
  std::vector<Atom> before_;
  int64_t horizon_ = 0;
  BoundSolver solver_;
  Integer end_ = 0;
  Atom always_;
};

}  // namespace

int32_t JobShop::add(int64_t duration) {
  durations.push_back(duration);
  return static_cast<int32_t>(durations.size()) - 1;
}

Timetable solve(const JobShop& shop, int64_t bound, int64_t nodes_max) {
  return Model(shop).run(bound, nodes_max);
}

}  // namespace tombolo::schedule_proof::detail
