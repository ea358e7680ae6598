// Several jobs on one cluster whose network joins any GPU to any other (a Clos): each takes pieces of
// domains, wherever they are free.
//
// A piece is the fewest GPUs that have to share a domain, such as those of a tensor group. Where all
// pieces divide each other and the domain, jobs fit exactly if there are GPUs for them; elsewhere
// placing is a heuristic: largest pieces first, whole domains first, then where least is left over.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tombolo::search {

struct PieceJob {
  int64_t gpus = 1;
  int64_t piece = 1;  // divides gpus
};

struct AnyGpus {
  // Of each job the greatest common divisor of what it has of each domain; nothing: it has no place.
  std::vector<std::optional<int64_t>> of_domain;
  int64_t gpus = 0;
  int64_t gpus_at_most = 0;
  bool proven = false;  // no other choice of jobs has more GPUs
};

AnyGpus place_anywhere(int64_t domain, int64_t domains, std::span<const PieceJob> jobs);

}  // namespace tombolo::search
