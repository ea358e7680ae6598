// The model FLOPS utilisation (MFU) that the law `tombolo` gives for every device of the catalog,
// every software stack, and models of four sizes, dense and mixtures of experts, next to the
// highest that anyone published for such a device (published::highest_utilisations).
//
// A cell is the best of a small space of configurations that fit: tensor parallelism inside a
// domain, pipelines plain and interleaved, ZeRO 1 to 3, expert parallelism, recomputation,
// microbatches of 1 to 4; sequences of 8,192 tokens, 4 M tokens per iteration, 16 bits. Machines
// are as they are sold: nodes, scale-up domains and ports of each generation. `tombolo plan` looks
// at more; the answer differs by a few percent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "predict/cost/configuration.h"
#include "spec/cluster/cluster.h"
#include "spec/model/model.h"

namespace tombolo::score {

// The best configuration that fits, and what it makes of the devices.
struct CatalogCell {
  double mfu = 0;
  cost::Configuration configuration;
};

struct CatalogRow {
  std::string constants;     // the device whose constants are used
  cluster::Datacenter site;  // as many devices as train the model here
  model::Model model;
  std::vector<std::optional<CatalogCell>> cells;  // by stack; left out: nothing fits
};

// The highest published on such a device, which bounds all cells; and that of each class of model.
struct CatalogLimit {
  double mfu = 0;
  std::string run;  // which reached it
  std::optional<double> dense, mixture;
};

struct CatalogTable {
  bool experts = false;
  std::vector<std::string> stacks;
  std::vector<CatalogRow> rows;      // by device, then by model
  std::vector<CatalogLimit> limits;  // of rows[i]: the highest published
};

// With the constants of the program. Takes about a second.
Result<CatalogTable> catalog_utilisation(bool experts);

// The cells above the highest published.
struct CatalogExcess {
  std::string model, device, stack;
  double mfu = 0;
  CatalogLimit limit;
};
std::vector<CatalogExcess> above_published(const CatalogTable& table);

}  // namespace tombolo::score
