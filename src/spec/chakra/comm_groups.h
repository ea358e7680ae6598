// Communicator groups: which ranks a collective joins, by the name that its node gives (pg_name).
//
// ASTRA-sim reads them from a file, {"5": [0, 1], "6": [2, 3]}; PyTorch's traces carry them in the
// inputs of the METADATA node "## process_group:init ##", others in those of any METADATA node.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "spec/graph/graph.h"

namespace tombolo::chakra {

using CommGroups = std::map<std::string, std::vector<int32_t>>;  // ranks in the order of the file

// Unusable, naming the file and the group: not lists of ranks, a negative rank, one that stands
// twice, no rank at all.
Result<CommGroups> read_comm_groups(const std::string& path);
Result<CommGroups> parse_comm_groups(std::string_view text, const std::string& name);

std::string to_json_text(const CommGroups& groups);

// The groups that a METADATA node declares; none if it declares something else. A group of all
// ranks, which may name none, is left out. `name` is the file.
Result<CommGroups> process_groups_of(const graph::Node& node, const std::string& name);

}  // namespace tombolo::chakra
