#include "decide/schedule_proof/machine.h"

#include <algorithm>
#include <numeric>

namespace tombolo::schedule_proof::detail {

Machine::Machine(std::vector<Operation> operations, std::vector<Atom> before)
    : operations_(std::move(operations)),
      before_(std::move(before)),
      start_min_(operations_.size()),
      end_max_(operations_.size()),
      by_start_(operations_.size()),
      by_end_(operations_.size()) {
  std::iota(by_start_.begin(), by_start_.end(), size_t{0});
  std::iota(by_end_.begin(), by_end_.end(), size_t{0});
}

bool Machine::propagate(BoundSolver& solver) {
  for (const bool reverse : {false, true}) {
    if (!sums(solver, reverse) || !edges(solver, reverse)) return false;
  }
  return true;
}

Atom Machine::before(size_t i, size_t j, bool reverse) const {
  return reverse ? before_[j * operations_.size() + i] : before_[i * operations_.size() + j];
}

Atom Machine::no_earlier(size_t i, int64_t time, bool reverse) const {
  const Operation& operation = operations_[i];
  return reverse ? at_most(operation.start, -time - operation.duration)
                 : at_least(operation.start, time);
}

Atom Machine::no_later_end(size_t i, int64_t time, bool reverse) const {
  const Operation& operation = operations_[i];
  return reverse ? at_least(operation.start, -time)
                 : at_most(operation.start, time - operation.duration);
}

// In reverse, time t is -t: an operation starts where it ends.
void Machine::read(const BoundSolver& solver, bool reverse) {
  for (size_t i = 0; i < operations_.size(); ++i) {
    const auto& [start, duration] = operations_[i];
    start_min_[i] = reverse ? -solver.max(start) - duration : solver.min(start);
    end_max_[i] = reverse ? -solver.min(start) : solver.max(start) + duration;
  }
  std::sort(by_start_.begin(), by_start_.end(),
            [&](size_t i, size_t j) { return start_min_[i] < start_min_[j]; });
  std::sort(by_end_.begin(), by_end_.end(),
            [&](size_t i, size_t j) { return end_max_[i] < end_max_[j]; });
}

bool Machine::sums(BoundSolver& solver, bool reverse) {
  read(solver, reverse);
  for (size_t j = 0; j < operations_.size(); ++j) {
    // Over those that go before j, the late ones first: from when, and how long from then on.
    int64_t best = start_min_[j];
    int64_t from = 0;
    int64_t sum = 0;
    for (size_t at = operations_.size(); at-- > 0;) {
      const size_t i = by_start_[at];
      if (i == j || !solver.holds(before(i, j, reverse))) continue;
      sum += operations_[i].duration;
      if (start_min_[i] + sum > best) {
        best = start_min_[i] + sum;
        from = start_min_[i];
      }
    }
    if (best == start_min_[j]) continue;
    reasons_.clear();
    for (size_t i = 0; i < operations_.size(); ++i) {
      if (i == j || start_min_[i] < from || !solver.holds(before(i, j, reverse))) continue;
      reasons_.push_back(before(i, j, reverse));
      reasons_.push_back(no_earlier(i, from, reverse));
    }
    if (!solver.enforce(no_earlier(j, best, reverse), reasons_)) return false;
  }
  return true;
}

// Windows end where some operation must; they grow towards earlier starts.
bool Machine::edges(BoundSolver& solver, bool reverse) {
  read(solver, reverse);
  const size_t n = operations_.size();
  for (size_t last = 0; last < n; ++last) {
    const int64_t end = end_max_[by_end_[last]];
    if (last + 1 < n && end_max_[by_end_[last + 1]] == end) continue;
    int64_t longest = 0;  // of those that may end later
    for (size_t at = last + 1; at < n; ++at) {
      longest = std::max(longest, operations_[by_end_[at]].duration);
    }
    int64_t sum = 0;
    for (size_t at = n; at-- > 0;) {
      const size_t first = by_start_[at];
      if (end_max_[first] > end) continue;
      sum += operations_[first].duration;
      const int64_t start = start_min_[first];
      if (start + sum + longest <= end) continue;
      const auto inside = [&](size_t i) { return start_min_[i] >= start && end_max_[i] <= end; };
      const auto add_window = [&](int64_t from, int64_t to) {
        for (size_t i = 0; i < n; ++i) {
          if (!inside(i)) continue;
          reasons_.push_back(no_earlier(i, from, reverse));
          reasons_.push_back(no_later_end(i, to, reverse));
        }
      };
      if (start + sum > end) {
        reasons_.clear();
        add_window(start, start + sum - 1);
        return solver.refute(reasons_);
      }
      for (size_t later = last + 1; later < n; ++later) {
        const size_t j = by_end_[later];
        const int64_t from = std::min(start, start_min_[j]);
        const int64_t filled = from + sum + operations_[j].duration;
        if (filled <= end) continue;
        for (size_t i = 0; i < n; ++i) {
          if (!inside(i) || i == j || solver.holds(before(i, j, reverse))) continue;
          reasons_.clear();
          add_window(from, filled - 1);
          reasons_.push_back(no_earlier(j, from, reverse));
          if (!solver.enforce(before(i, j, reverse), reasons_)) return false;
        }
      }
    }
  }
  return true;
}

}  // namespace tombolo::schedule_proof::detail
