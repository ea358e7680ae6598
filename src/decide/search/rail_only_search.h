// The fastest split of a GPT over a cluster by the law `rail-only`: the paper's own optimisation.
//
// Every configuration that meets the paper's constraints is priced, exhaustively; nothing is cut
// off but what a constraint excludes. N devices in domains of K, a global batch of B:
//
//   p d t = N                          every device has its share                       (11)
//   d_h t_h p_h = K                    the parts inside a domain fill it                 (12)
//   m b = B/d                          microbatches divide what a replica gets          (13)
//   x_h x_l = x for d, t and p         each degree is a grid of domain and network (14 to 16)
//   l/(p v), s/t, h/t, B/d integers    equal stages, equal shares                        (18)
//   memory <= R                        of a device of the first stage                    (19)
//
// Left open by the paper and set here by options: which v (1, 2, 4 and 8), how many bytes of state
// a parameter takes in (19) (2: the weights alone, the rest sharded or elsewhere) and R. With these
// the figures of its section 6 come out within about two percentage points.
//
// Source: Wang et al., "How to Build Low-cost Networks for Large Language Models (without
// Sacrificing Performance)?", 2023, section 5.3 and appendix C. Cost: about 50 ns a configuration
// on one core and no memory; GPT-1T on 32,768 devices has some ten thousand.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "predict/cost/rail_only.h"

namespace tombolo::search {

struct RailOnlySpace {
  int64_t devices = 1;       // N
  int64_t domain = 1;        // K; all devices: one switch joins everything
  int64_t global_batch = 1;  // B
  Bytes memory = 80_GB;      // R, of a device
  double state_bytes = 2;    // per parameter, before any sharding; 16 keeps Adam's state unsharded
  std::vector<int64_t> virtual_stages = {1, 2, 4, 8};  // v, where stages are more than one
};

struct RailOnlyOptimum {
  cost::RailOnlySplit split;
  cost::RailOnlyTime parts;
  Seconds time;
  Bytes memory;
  int64_t evaluated = 0;  // configurations that meet all constraints but that of memory
  int64_t feasible = 0;   // and that too
};

// Of equally fast splits the first in the order t, p, t_h, p_h, v, b, each ascending.
//
// Unusable: a size below one, a domain that does not divide the devices. Infeasible: no split
// divides evenly, or none fits; the message has the smallest memory that any of them needs.
Result<RailOnlyOptimum> fastest_rail_only(const cost::RailOnlyModel& model,
                                          const cost::RailOnlyMachine& machine,
                                          const RailOnlySpace& space);

}  // namespace tombolo::search
