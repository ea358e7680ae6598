// Graphs as one JSON file: {"tombolo_graph": 1, "graphs": [{"rank": 0, "nodes": [...]}, ...]}.
#pragma once

#include <string>
#include <string_view>

#include "spec/graph/graph.h"

namespace tombolo::graph {

inline constexpr int kGraphVersion = 1;

std::string to_json_text(const Graphs& graphs);  // ranks and ids in order
Result<Graphs> parse_graphs(std::string_view text, const std::string& name);  // validated

}  // namespace tombolo::graph
