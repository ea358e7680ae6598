#include "evidence/score/catalog_utilisation.h"

#include <algorithm>

#include "base/check.h"
#include "predict/cost/iteration.h"
#include "predict/published/highest_utilisation.h"
#include "predict/published/reference.h"
#include "spec/cluster/cluster.h"
#include "spec/model/model.h"
#include "spec/plan/settings.h"

namespace tombolo::score {
namespace {

using cost::Configuration;

constexpr int64_t kTokensPerSequence = 8192;
constexpr int64_t kSequences = 512;

struct Trained {
  const char* preset;
  int64_t devices;
};
constexpr Trained kDense[] = {
    {"mpt-1b", 8}, {"llama3-8b", 32}, {"llama3-70b", 128}, {"llama3.1-405b", 512}};
constexpr Trained kMixtures[] = {
    {"qwen3-30b-a3b", 32}, {"mixtral-8x7b", 64}, {"qwen3-235b-a22b", 256}, {"deepseek-v3", 512}};

std::vector<Configuration> configurations(const model::Model& m, int64_t devices, int64_t domain) {
  std::vector<Configuration> all;
  const auto add = [&](Configuration c) {
    c.data = devices / (c.tensor * c.pipeline);
    c.global_batch = kSequences;
    c.sequence_parallel = c.tensor > 1;
    if (c.tensor * c.pipeline > devices || kSequences % (c.data * c.micro_batch) != 0) return;
    const int64_t chunks = c.pipeline * c.virtual_stages;
    const bool even = m.layers % chunks == 0 || (m.layers + 2) % chunks == 0;
    if (c.pipeline > 1 && (!even || chunks > m.layers)) return;
    if (c.virtual_stages > 1 && c.microbatches() % c.pipeline != 0) return;
    for (const auto recompute :
         {model::Recompute::kNone, model::Recompute::kSelective, model::Recompute::kFull}) {
      c.recompute = recompute;
      for (const int64_t expert : {1, 8, 32, 64}) {
        if (expert > 1 && (!m.experts || m.experts->count % expert != 0 || c.data % expert != 0)) {
          continue;
        }
        c.expert = expert;
        all.push_back(c);
      }
    }
  };
  for (const int64_t tensor : {1, 2, 4, 8}) {
    if (tensor > domain || m.heads % tensor != 0) continue;
    for (const int64_t micro_batch : {1, 2, 4}) {
      for (const int64_t zero : {2, 3}) {
        add({{.tensor = tensor, .zero = zero}, micro_batch});
      }
      for (const int64_t pipeline : {1, 2, 4, 8, 16}) {
        for (const int64_t chunks : {1, 2, 4, 8}) {
          if (chunks > 1 && pipeline == 1) continue;
          add({{.tensor = tensor, .pipeline = pipeline, .virtual_stages = chunks, .zero = 1},
               micro_batch});
        }
      }
    }
  }
  return all;
}

Result<std::optional<CatalogCell>> best_that_fits(const CatalogRow& row, const std::string& stack,
                                                  const std::vector<Configuration>& all) {
  const cost::IterationLaw law =
      TRY(cost::IterationLaw::make(row.model, row.site, {.stack = stack}));
  std::optional<Seconds> best;
  CatalogCell cell;
  for (const Configuration& c : all) {
    if (best && law.lower_bound(c) > *best) continue;
    if (law.memory(c).total() > row.site.device.memory) continue;
    const Seconds time = law.time(c).total();
    if (best && time >= *best) continue;
    best = time;
    cell.configuration = c;
  }
  if (!best) return std::nullopt;
  cell.mfu = cost::model_flops(row.model, kSequences) /
             (row.site.device.peak * static_cast<double>(row.site.devices()) * *best);
  return cell;
}

// The highest on that kind of device. A device that borrows its constants borrows the limit, too.
Result<CatalogLimit> limit_of(const std::vector<published::HighestUtilisation>& known,
                              const cost::Constants& constants) {
  CatalogLimit limit;
  for (const published::HighestUtilisation& one : known) {
    if (one.device != published::kind_of(constants.device)) continue;
    (one.experts ? limit.mixture : limit.dense) = one.mfu;
    if (one.mfu > limit.mfu) limit.run = one.run;
    limit.mfu = std::max(limit.mfu, one.mfu);
  }
  if (limit.mfu > 0) return limit;
  return failed(fmt::format("constants of {} without a published run", constants.device.name));
}

}  // namespace

Result<CatalogTable> catalog_utilisation(bool experts) {
  const std::vector<published::HighestUtilisation> known = TRY(published::highest_utilisations());
  CatalogTable table{.experts = experts};
  for (const plan::Stack& stack : plan::kStacks) table.stacks.push_back(stack.name);
  std::vector<Trained> models(std::begin(kDense), std::end(kDense));
  if (experts) models.assign(std::begin(kMixtures), std::end(kMixtures));
  for (const std::string& name : cluster::catalog_names()) {
    const cluster::Device device = TRY(cluster::catalog_device(name));
    if (device.kind != cluster::DeviceKind::kAccelerator) continue;
    for (const Trained& trained : models) {
      model::Model m = TRY(model::preset(trained.preset));
      m.sequence = kTokensPerSequence;
      m.positions_max.reset();
      CatalogRow row{.site = published::machines_as_sold(device, trained.devices), .model = m};
      const cost::Constants constants = TRY(cost::find_constants(row.site, table.stacks[0]));
      row.constants = constants.device.name;
      table.limits.push_back(TRY(limit_of(known, constants)));
      const std::vector<Configuration> all =
          configurations(m, trained.devices, row.site.scale_up.domain);
      for (const std::string& stack : table.stacks) {
        row.cells.push_back(TRY(best_that_fits(row, stack, all)));
      }
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

std::vector<CatalogExcess> above_published(const CatalogTable& table) {
  std::vector<CatalogExcess> above;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const CatalogRow& row = table.rows[r];
    for (size_t s = 0; s < table.stacks.size(); ++s) {
      if (!row.cells[s] || row.cells[s]->mfu <= table.limits[r].mfu) continue;
      above.push_back({row.model.name, row.site.device.name, table.stacks[s], row.cells[s]->mfu,
                       table.limits[r]});
    }
  }
  return above;
}

}  // namespace tombolo::score
