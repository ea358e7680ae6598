// Search that learns from its conflicts, over integers with bounds.
//
// Everything that is known is an atom, "x is at least k" or "x is at most k"; a Boolean is an
// integer from 0 to 1. The search guesses an atom and follows what it implies. Where bounds meet,
// the reasons are traced back to the one atom of the last guess that all of them pass through, and
// a clause that forbids the combination is kept: the same mistake is not made twice, anywhere.
//
// Source: Ohrimenko, Stuckey, Codish, "Propagation via lazy clause generation", Constraints 14
// (2009); atoms in place of Booleans as in Feydy and Stuckey, CP 2009. The search itself is that of
// SAT solvers: Een and Sorensson, "An extensible SAT-solver", SAT 2003.
// Cost: about 10,000 conflicts per second on some 200 operations.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tombolo::schedule_proof::detail {

// Integers are numbered. Side 2x holds the lower bound of x, side 2x + 1 that of -x, so that "at
// most" is "at least" on the other side, and a bound only ever grows.
using Integer = int32_t;

struct Atom {
  int32_t side = 0;
  int64_t value = 0;  // the bound of the side is at least this
  bool operator==(const Atom&) const = default;
};
constexpr Atom at_least(Integer x, int64_t value) { return {2 * x, value}; }
constexpr Atom at_most(Integer x, int64_t value) { return {2 * x + 1, -value}; }
constexpr Atom negation(Atom atom) { return {atom.side ^ 1, 1 - atom.value}; }

class BoundSolver;

// Derives more than clauses and differences do. Woken when a bound that it watches has grown.
class Propagator {
 public:
  virtual ~Propagator() = default;
  // Enforces what follows (BoundSolver::enforce). False as soon as enforce says so.
  virtual bool propagate(BoundSolver& solver) = 0;
};

class BoundSolver {
 public:
  Integer add_integer(int64_t min, int64_t max);
  Integer add_boolean();  // one that the search guesses
  // to >= from + distance; only where the guard (an atom of a Boolean) holds, if there is one.
  void add_difference(Integer from, Integer to, int64_t distance, std::optional<Atom> guard = {});
  void add_clause(std::vector<Atom> atoms);  // one of them holds
  void add_propagator(std::unique_ptr<Propagator> propagator, std::span<const int32_t> sides);

  int64_t min(Integer x) const { return bound(2 * x); }
  int64_t max(Integer x) const { return -bound(2 * x + 1); }
  int64_t bound(int32_t side) const { return bounds_[static_cast<size_t>(side)]; }
  bool holds(Atom atom) const { return bound(atom.side) >= atom.value; }
  bool fails(Atom atom) const { return holds(negation(atom)); }

  // For propagators: the atom follows from reasons that all hold. False on a conflict.
  bool enforce(Atom atom, std::span<const Atom> reasons);
  // For propagators: reasons that all hold, and cannot.
  bool refute(std::span<const Atom> reasons);

  // What the search tries first: atoms of a Boolean, by the last solution or by the caller.
  void prefer(Atom atom) { phase_[static_cast<size_t>(atom.side / 2)] = atom.side % 2 == 0; }

  // Forbids what lies outside from now on. False where nothing is left.
  bool restrict_to(Atom atom);

  enum class Outcome { kSolution, kNone, kStopped };
  // Guesses until every Boolean is decided; then every integer may take its lower bound. Stops when
  // decisions() has reached the limit. Bounds stay readable until the next call.
  Outcome solve(int64_t decisions_max);
  int64_t decisions() const { return decisions_; }

 private:
  enum class Why : int8_t { kGuess, kClause, kDifference, kStored };
  struct Reason {
    Why why = Why::kGuess;
    int32_t index = -1;  // of the clause, the difference or the first stored atom
    int64_t extra = 0;   // number of stored atoms; for a refuted guard the bound of `from` then
  };
  // A bound that grew.
  struct Step {
    int32_t side;
    int32_t previous;  // step of this side, or -1
    int64_t value, before;
    int32_t level;
    Reason reason;
  };
  struct Difference {
    Integer from, to;
    int64_t distance;
    std::optional<Atom> guard;
  };
  struct Clause {
    std::vector<Atom> atoms;  // the first two are watched
    int32_t levels = 0;       // guesses it spans when learned; 0: given
    bool dead = false;
  };
  struct Watch {
    int64_t value;  // the watched atom fails from here on
    int32_t clause;
    Atom other;  // another atom of the clause: while it holds, all is well
  };

  int32_t level() const { return static_cast<int32_t>(level_starts_.size()); }
  bool push(Atom atom, Reason reason);
  bool propagate();
  bool follow_differences(const Step& step);
  bool follow(int32_t difference);
  bool follow_clauses(int32_t side);
  void explain(Atom atom, const Reason& reason, std::vector<Atom>& out) const;
  int32_t step_of(Atom atom) const;  // that made it hold, or -1
  void need(Atom atom);
  bool learn();  // from conflict_; false where nothing is left
  bool is_implied(Atom atom);
  void watch(int32_t clause);
  void backtrack(int32_t level);
  void forget_clauses();
  std::optional<Atom> guess();

  void bump(Integer x);
  void sift_up(size_t at);
  void sift_down(size_t at);
  void insert(Integer x);

  std::vector<int64_t> bounds_;  // by side
  std::vector<int32_t> last_;    // by side: its latest step, or -1
  std::vector<Step> steps_;
  std::vector<size_t> level_starts_, stored_starts_;
  std::vector<Atom> stored_;  // reasons of propagators
  size_t next_ = 0;           // step to follow

  std::vector<Difference> differences_;
  std::vector<std::vector<int32_t>> differences_of_;  // by side
  std::vector<Clause> clauses_;
  std::vector<std::vector<Watch>> watches_;  // by side
  std::vector<std::unique_ptr<Propagator>> propagators_;
  std::vector<std::vector<int32_t>> woken_by_;  // by side
  std::vector<int32_t> awake_;
  std::vector<bool> is_awake_;
  bool hopeless_ = false;

  std::vector<Atom> conflict_;        // all hold, and cannot
  std::vector<int64_t> needed_;       // by side, while learning
  std::vector<int32_t> needed_step_;  // by side: -1: not needed
  std::vector<int32_t> needed_sides_;
  int32_t open_ = 0;  // needed steps of the latest level
  std::vector<Atom> scratch_;

  std::vector<bool> is_boolean_, phase_;
  std::vector<double> activity_;
  std::vector<Integer> heap_;     // undecided Booleans, the most active first
  std::vector<int32_t> heap_at_;  // by Integer, or -1
  double bump_by_ = 1;
  int64_t decisions_ = 0, conflicts_ = 0;
  int64_t learned_max_ = 4000, learned_ = 0;
};

}  // namespace tombolo::schedule_proof::detail
