// The messages with which replicas in several datacenters exchange sparse updates of a group of
// gradients. The simulator and the runtime both obey this value, as that of gradient_exchange.h.
//
// One update of each datacenter crosses the WAN:
//
//   1. inside   One replica of each datacenter leads: it gets the others' gradients and adds. It keeps
//               what its datacenter has not sent yet, so that rounding and blocks left out are made up
//               for, and makes the update of its datacenter.
//   2. across   It sends that update to the leaders elsewhere, and inside.
//   3. inside   It hands on what came from each other datacenter, a round for each.
//
// Every replica has all updates then, merges them in the order of datacenters, and changes its
// parameters by the same bits. Leaders take turns from group to group, so all carry a part.
//
// Bytes, with n replicas in each of D datacenters, S of gradients and u of an update: a datacenter
// sends (D - 1) u over the WAN, and inside (n - 1) S to its leader and (n - 1) D u from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/schedule/gradient_exchange.h"

namespace tombolo::schedule {

// By datacenter, in the order in which they first appear: the replica that leads in group `group`.
std::vector<int32_t> leaders_of(std::span<const int32_t> datacenters, int32_t group);

// datacenters[r] says where replica r lies, by any number.
GradientExchange sparse_exchange(std::span<const int32_t> datacenters, int64_t elements,
                                 int32_t group);

// Of a replica of a stage: the number of its datacenter in that order, and whether it leads there.
struct SparseRole {
  int32_t datacenter = 0;
  bool leads = false;
  int32_t datacenters = 0;
};
SparseRole sparse_role(const plan::Plan& plan, int32_t rank, int32_t stage, int32_t group);

// Bytes of an update of this many elements (perform/compress/update_code.h), where the chosen blocks
// lie as if drawn: 24 bytes, and for each block its values and, by the geometric distribution of the
// gaps, 1 + (1-p)^128 + (1-p)^16384 bytes of its number for a share p of the blocks. Of mode = "local"
// all blocks, without numbers (perform/compress/dense_code.h). With select = "chunks" exactly what is
// sent (perform/compress/chunks.h).
double expected_update_bytes(const plan::Exchange& exchange, int64_t elements);

}  // namespace tombolo::schedule
