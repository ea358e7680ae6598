// Operations on machines that do one thing at a time: the shortest way through all of them, proven.
//
// What is left open by the precedences is, for every two operations of a machine, which one goes
// first: a Boolean each. A BoundSolver guesses those; differences carry start times along, and each
// machine adds what its crowd implies (machine.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tombolo::schedule_proof::detail {

struct JobShop {
  struct Precedence {
    int32_t before, after;
    int64_t lag = 0;  // from the end of the one to the start of the other
  };
  // The first goes before the second exactly where the third goes before the fourth; each two of
  // them share a machine.
  using Alike = std::array<int32_t, 4>;
  // A store with `places` places: operations that take one, and operations at whose end one is free
  // again. All are of one machine.
  struct Store {
    std::vector<int32_t> take, give;
    int64_t places = 0;
  };

  std::vector<int64_t> durations;  // by operation
  std::vector<Precedence> precedences;
  std::vector<std::vector<int32_t>> machines;  // operations of each
  std::vector<Alike> alike;
  std::vector<Store> stores;

  int32_t add(int64_t duration);
};

struct Timetable {
  std::vector<int64_t> starts;  // by operation; empty: nothing fits
  int64_t makespan = 0;
  int64_t bound = 0;  // nothing is shorter
  bool proven = false;
  int64_t nodes = 0;  // guesses
};

// Searches for shorter timetables until there is none or nodes_max guesses are spent. `bound` is a
// lower bound that the caller already knows.
Timetable solve(const JobShop& shop, int64_t bound, int64_t nodes_max);

}  // namespace tombolo::schedule_proof::detail
