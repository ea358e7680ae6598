// Which of several replicas keeps the optimizer state of which parameter (ZeRO-1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tombolo::train {

// owners[i] keeps parameter i of sizes[i] numbers: whole parameters, the largest first, each to the
// replica with least so far (Graham 1969), the first of equals. `loads`: what each replica has
// already; it grows. The largest load exceeds the mean by less than the largest parameter. The same
// on all replicas.
std::vector<int32_t> balanced_owners(std::span<const int64_t> sizes, std::vector<int64_t>& loads);

}  // namespace tombolo::train
