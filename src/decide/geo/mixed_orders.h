// In which order a pipeline visits datacenters.
#pragma once

#include <cstddef>
#include <vector>

namespace tombolo::geo {

// The orders of a set of datacenters whose neighbours are linked, short ways first: all of them for
// up to six; for more the way of nearest neighbours from each start and back, with parts reversed
// while that shortens it (2-opt: Croes, "A method for solving traveling-salesman problems", 1958).
// transfer[a][b] is the length of a step, infinite without a link.
std::vector<std::vector<size_t>> orders_of(const std::vector<size_t>& datacenters,
                                           const std::vector<std::vector<double>>& transfer);

}  // namespace tombolo::geo
