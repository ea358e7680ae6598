// What follows for operations that share a machine, beyond what each two of them imply.
//
//   sum        an operation starts no earlier than all that go before it take, one after the other
//   overload   operations that must all lie in a window need no more than its length
//   edge       where adding an operation to such a window overfills it, it goes before or after all
//
// Source: Carlier and Pinson, "An algorithm for solving the job-shop problem", Management Science
// 35 (1989); reasons as in Vilim, "Computing explanations for the unary resource constraint",
// CPAIOR 2005. Cost: O(n^2) for sums, O(n^3) at worst for edges, n operations.
#pragma once

#include <vector>

#include "decide/schedule_proof/bound_solver.h"

namespace tombolo::schedule_proof::detail {

class Machine : public Propagator {
 public:
  struct Operation {
    Integer start;
    int64_t duration;
  };
  // before[i * n + j]: what says that i goes before j; the negation of before[j * n + i].
  Machine(std::vector<Operation> operations, std::vector<Atom> before);

  bool propagate(BoundSolver& solver) override;

 private:
  // One direction of time; the other one is the same with all signs turned.
  bool sums(BoundSolver& solver, bool reverse);
  bool edges(BoundSolver& solver, bool reverse);
  Atom before(size_t i, size_t j, bool reverse) const;
  Atom no_earlier(size_t i, int64_t time, bool reverse) const;
  Atom no_later_end(size_t i, int64_t time, bool reverse) const;
  void read(const BoundSolver& solver, bool reverse);

  std::vector<Operation> operations_;
  std::vector<Atom> before_;
  // As of the latest read(): of each operation, and operations by earliest start and latest end.
  std::vector<int64_t> start_min_, end_max_;
  std::vector<size_t> by_start_, by_end_;
  std::vector<Atom> reasons_;
};

}  // namespace tombolo::schedule_proof::detail
