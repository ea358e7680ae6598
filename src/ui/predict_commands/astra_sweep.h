// `tombolo astra --set KEY=VALUE,...`: one workload on every network and system of a grid.
//
//   --set network.bandwidth=50,100               every dimension
//   --set network.bandwidth[1]=25,50             the second
//   --set network.topology[0]=Ring,Switch
//   --set system.active-chunks-per-dimension=1,2
//   --set system.all-reduce-implementation=ring,direct
//
// Axes as sweep/sweep_axis.h reads them, the last varying fastest; a key of a list without a
// number means all its entries. Each point is what a single run with such files answers. Points are
// shared out to threads; rows come in the order of the grid, so that neither their number nor
// chance shows. A point that cannot be simulated ends the sweep: the first of the grid, by name.
#pragma once

#include <ostream>

#include "base/result.h"
#include "predict/astra/astra_run.h"
#include "ui/predict_commands/astra_command.h"

namespace tombolo::predict_commands {

// A table, with --json one document, with --csv also a file.
Status astra_sweep(const AstraCommandOptions& options, const astra::AstraOptions& of_astra,
                   std::ostream& out);

}  // namespace tombolo::predict_commands
