// Which datacenters to use, how many pipelines, and how many stages of each pipeline where.
//
// Algorithm 1 of Atlas. A pipeline has P partitions (stages), a DP-cell has C pipelines that share
// the WAN in time, and D cells run side by side. For each D, datacenters are taken in a given
// order; one with G GPUs has room for floor(G / (D C)) partitions of all D C pipelines, and takes
// as many as are left. D is feasible when none is left over. So all replicas of a partition share a
// datacenter, and what crosses the WAN is activations.
//
//   total(D) = time of a cell (dp_cell.h) + ring all-reduce among the D C replicas
//              + gradients of a tied embedding between the ends of the pipelines
//   throughput(D) = microbatches of an iteration / total(D)
//
// The smallest D of the highest throughput is chosen. In the paper every pipeline runs M
// microbatches whatever D is, so an iteration grows with D; of a job with a batch it is the batch,
// which the pipelines share.
//
// The floors leave GPUs unused: 120 of 600 at P = 60, C = 4. So `beyond` looks at any number of
// pipelines, in cells of C or fewer as equal as possible, over any of the datacenters.
//
// Source: Palak et al. 2024, Atlas, section 4.5, algorithm 1, read as it must be meant: line 7
// subtracts, the divisor of line 4 is D C, an infeasible D takes for ever. Cost: a cell's time per
// feasible row. docs/laws/datacenter_selection.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "decide/geo/dp_cell.h"

namespace tombolo::geo {

struct SelectionSite {
  std::string name;
  int64_t gpus = 0;
  Seconds forward;  // of one partition and microbatch, on a GPU here
  Seconds backward;
  DollarsPerSecond price = {};  // of one GPU
  bool must = false;            // holds at least one partition
};

struct SelectionSetting {
  std::vector<SelectionSite> sites;  // in the order in which they are filled
  int64_t partitions = 1;            // P
  int64_t pipelines_per_cell = 1;    // C
  // What an iteration is: M microbatches per pipeline, or microbatches_together over all pipelines,
  // divided as equally as possible. The pipelines that get one more set the time.
  int64_t microbatches = 1;
  std::optional<int64_t> microbatches_together = {};

  int64_t microbatches_of_one(int64_t pipelines) const {
    if (!microbatches_together) return microbatches;
    return (*microbatches_together + pipelines - 1) / pipelines;
  }
  int64_t microbatches_of_all(int64_t pipelines) const {
    return microbatches_together.value_or(pipelines * microbatches);
  }

  // How one of `cells` cells of `pipelines` pipelines meets the WAN between two sites, by their
  // indices; empty: no link joins them.
  std::function<std::optional<CellLink>(size_t from, size_t to, int64_t pipelines, int64_t cells)>
      link;
  // The gradient all-reduce among `replicas` replicas of a partition at a site.
  std::function<Seconds(size_t site, int64_t replicas)> all_reduce;
  // How long the first partitions of `pipelines` pipelines take to send the last ones the gradients
  // of a tied embedding; empty: no time.
  std::function<Seconds(size_t first, size_t last, int64_t pipelines)> tied = {};
  // What a microbatch costs on its way from one site to the next, there and back; empty: nothing.
  std::function<Dollars(size_t from, size_t to)> egress = {};
  // What the gradients of a tied embedding cost between the ends of `pipelines` pipelines.
  std::function<Dollars(size_t first, size_t last, int64_t pipelines)> tied_egress = {};
  std::function<Seconds(const DpCell&)> cell_time = one_forward_one_backward_cell;
  bool look_beyond = true;  // of algorithm 1; it costs about as much again
};

struct SelectionRow {
  int64_t cells = 0;                // D
  int64_t pipelines = 0;            // D C
  int64_t microbatches = 0;         // of one pipeline; of the busiest where they are not all alike
  int64_t all_microbatches = 0;     // of all pipelines
  std::vector<int64_t> partitions;  // per site; of an infeasible row what found room
  bool feasible = false;
  std::string obstacle;  // why it is not
  Seconds pipeline;      // this and below only where feasible
  Seconds all_reduce;    // of replicas, and of tied ends
  Seconds total() const { return pipeline + all_reduce; }
  double throughput() const;  // microbatches per second
  int64_t used_gpus = 0;
  int64_t unused_gpus = 0;
  Dollars cost;  // of the used GPUs and of what crosses the WAN, per iteration
};

struct SelectionResult {
  std::vector<SelectionRow> rows;      // D = 1, 2, ... floor(all GPUs / (C P))
  size_t chosen = 0;                   // its index
  std::optional<SelectionRow> beyond;  // where that is better than `chosen`
  bool subsets_tried = true;           // by beyond; not where they are too many
  int64_t candidates = 0;              // feasible settings that beyond looked at
};

// Infeasible: no row is; the error names the tightest constraint of one cell.
Result<SelectionResult> select_datacenters(const SelectionSetting& setting);

// The partitions of one pipeline when `pipelines` run over the sites of `mask` (left out: all), in
// order; less than P in sum where they do not fit. What `must` asks for is set aside first.
std::vector<int64_t> fill_sites(const SelectionSetting& setting, int64_t pipelines,
                                const std::vector<bool>& mask = {});

}  // namespace tombolo::geo
