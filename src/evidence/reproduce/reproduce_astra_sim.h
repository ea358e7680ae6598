// What ASTRA-sim 2.0 prints of collectives and of memory pools, beside our figures.
//
// Table III and the comparison of wafers with conventional systems follow from the law
// `chunked-all-reduce`, the memory examples from the laws of pools; table IV leaves so much open
// that we state a scenario. The experiment on simulation speed is here for what it simulates; how
// long that takes is measured (docs/results.md).
//
// Source: Won et al. 2023, ASTRA-sim2.0: Modeling Hierarchical Networks and Disaggregated Systems
// for Large-model Training at Scale, sections III and IV. docs/laws/chunked_all_reduce.md and
// docs/laws/remote_memory.md.
#pragma once

#include <vector>

#include "evidence/reproduce/reproduce.h"

namespace tombolo::reproduce {

// table-1-themis, table-3, table-4, remote-memory and speed.
std::vector<Table> astra_sim();

}  // namespace tombolo::reproduce
