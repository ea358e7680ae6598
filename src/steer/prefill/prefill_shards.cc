#include "steer/prefill/prefill_shards.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"

namespace tombolo::prefill {
namespace {

// The memory in which a model fits at this depth, about: for what a person should try.
Bytes memory_for(const model::Model& model, int64_t depth) {
  double low = 0, high = shard_bytes(model, {0, model.layers, true, true}).value + 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (split_shards(model, depth, Bytes{middle}).empty() ? low : high) = middle;
  }
  return Bytes{high};
}

// GPUs of one stage, place in the cell and shard, by datacenter: the rows that pipelines are cut
// from.
std::map<size_t, std::vector<PrefillGpu>> rows_at(const plan::Plan& plan, int64_t position,
                                                  int64_t place, int64_t shard) {
  std::map<size_t, std::vector<PrefillGpu>> rows;
  const int64_t data = plan.replicas(), cell = plan.parallelism.pipelines_per_cell();
  for (int64_t replica = place; replica < data; replica += cell) {
    const auto rank = static_cast<int32_t>(position * data + replica);
    rows[plan.datacenter_index(rank)].push_back({rank, shard});
  }
  return rows;
}

bool share_node(const plan::Plan& plan, const std::vector<PrefillGpu>& gpus) {
  const int64_t node = plan.place_of(gpus[0].rank, gpus[0].shard).node;
  return std::all_of(gpus.begin(), gpus.end(), [&](const PrefillGpu& gpu) {
    return plan.place_of(gpu.rank, gpu.shard).node == node;
  });
}

class FleetMaker {
 public:
  FleetMaker(const plan::Plan& plan, const plan::Prefill& prefill)
      : plan_(plan), prefill_(prefill) {
    for (const layout::Placement& placement : plan.ranks) {
      first_gpu_.push_back(static_cast<int32_t>(fleet_.gpus.size()));
      for (int64_t s = 0; s < placement.shards; ++s) fleet_.gpus.push_back({placement.rank, s});
    }
  }

  Status add_row(size_t datacenter, const std::vector<PrefillGpu>& row) {
    const auto cells = std::ssize(row);
    const int64_t depth =
        prefill_.depth.value_or(depth_min(prefill_.model, prefill_.memory, cells));
    if (depth < 1 || depth > cells ||
        split_shards(prefill_.model, depth, prefill_.memory).empty()) {
      const int64_t tried = std::min(prefill_.depth.value_or(cells), prefill_.model.layers);
      return infeasible(
          fmt::format("prefill.memory = \"{}\": {} does not fit over {} GPUs of stage {} in {}",
                      format(prefill_.memory), prefill_.model.name, cells,
                      plan_.ranks[static_cast<size_t>(row[0].rank)].stage,
                      plan_.cluster.datacenters[datacenter].name),
          tried > cells ? fmt::format("depth = {}", cells)
                        : fmt::format("memory = \"{}\", or a smaller model",
                                      brief(memory_for(prefill_.model, tried))));
    }
    const int64_t pipelines = cells / depth;
    for (int64_t i = 0; i < pipelines; ++i) {
      const auto begin = row.begin() + i * cells / pipelines;
      add_pipeline(datacenter, {begin, row.begin() + (i + 1) * cells / pipelines});
    }
    return {};
  }

  PrefillFleet take() { return std::move(fleet_); }

 private:
  void add_pipeline(size_t datacenter, const std::vector<PrefillGpu>& gpus) {
    PrefillPipeline pipeline{.datacenter = datacenter};
    const std::vector<model::Slice> slices = shards_of(std::ssize(gpus));
    // A model of fewer layers than the row has GPUs leaves the last ones out.
    for (size_t s = 0; s < slices.size(); ++s) {
      const int32_t gpu = first_gpu_[static_cast<size_t>(gpus[s].rank)];
      pipeline.stages.push_back({gpu + static_cast<int32_t>(gpus[s].shard), slices[s].layers});
      fleet_.shard_max = std::max(fleet_.shard_max, shard_bytes(prefill_.model, slices[s]));
    }
    fleet_.pipelines.push_back(std::move(pipeline));
    fleet_.one_node.push_back(share_node(plan_, gpus));
  }

  std::vector<model::Slice> shards_of(int64_t gpus) {
    const int64_t depth = std::min(gpus, prefill_.model.layers);
    std::vector<model::Slice>& known = shards_[depth];
    if (known.empty()) known = split_shards(prefill_.model, depth, prefill_.memory);
    CHECK(!known.empty(), "{} fits over fewer GPUs than {}", prefill_.model.name, depth);
    return known;
  }

  const plan::Plan& plan_;
  const plan::Prefill& prefill_;
  PrefillFleet fleet_;
  std::vector<int32_t> first_gpu_;  // of each rank
  std::map<int64_t, std::vector<model::Slice>> shards_;
};

}  // namespace

Bytes shard_bytes(const model::Model& model, const model::Slice& slice) {
  return Bytes{kStoredBytes * real(model::parameters(model, slice))};
}

Bytes kv_bytes(const model::Model& model) {
  const int64_t numbers = model.latent_attention
                              ? model.latent_attention->kv_rank + model.latent_attention->rope_dim
                              : 2 * model.kv_heads * model.head_size();
  // The states of linear attention grow with no token.
  return Bytes{kStoredBytes * model.full_attention_share() * real(numbers)};
}

std::vector<model::Slice> split_shards(const model::Model& model, int64_t depth, Bytes memory) {
  if (depth < 1 || depth > model.layers) return {};
  // Layers may be of several kinds, dense ones first, or in turns; the largest one counts.
  Bytes layer = shard_bytes(model, {0, 1, false, false});
  for (int64_t i = std::max<int64_t>(1, model.layers - model.layer_period()); i < model.layers; ++i)
    layer = std::max(layer, shard_bytes(model, {i, 1, false, false}));
  std::vector<int64_t> room;  // of each stage, in layers
  for (int64_t s = 0; s < depth; ++s) {
    const Bytes ends = shard_bytes(model, {0, 0, s == 0, s + 1 == depth});
    const double layers = std::floor((memory - ends) / layer);
    if (layers < 1) return {};
    room.push_back(static_cast<int64_t>(std::min(layers, real(model.layers))));
  }
  int64_t most = 0, held = 0;
  while (held < model.layers && most < model.layers) {
    ++most;
    held = 0;
    for (const int64_t each : room) held += std::min(each, most);
  }
  if (held < model.layers) return {};
  std::vector<model::Slice> slices(static_cast<size_t>(depth));
  for (size_t s = slices.size(); s-- > 0;) {
    slices[s] = {0, std::min(room[s], most), s == 0, s + 1 == slices.size()};
    if (held > model.layers && slices[s].layers == most) {
      --slices[s].layers;
      --held;
    }
  }
  for (size_t s = 1; s < slices.size(); ++s) {
    slices[s].first_layer = slices[s - 1].first_layer + slices[s - 1].layers;
  }
  return slices;
}

int64_t depth_min(const model::Model& model, Bytes memory, int64_t depth_max) {
  for (int64_t depth = 1; depth <= std::min(depth_max, model.layers); ++depth) {
    if (!split_shards(model, depth, memory).empty()) return depth;
  }
  return 0;
}

Result<PrefillFleet> fleet_of(const plan::Plan& plan, const plan::Prefill& prefill) {
  FleetMaker maker(plan, prefill);
  const int64_t cell = plan.parallelism.pipelines_per_cell();
  for (int64_t position = 0; position < plan.parallelism.pipeline; ++position) {
    const int64_t shards = plan.ranks[static_cast<size_t>(position * plan.replicas())].shards;
    for (int64_t place = 0; place < cell; ++place) {
      for (int64_t shard = 0; shard < shards; ++shard) {
        for (const auto& [datacenter, row] : rows_at(plan, position, place, shard)) {
          TRY(maker.add_row(datacenter, row));
        }
      }
    }
  }
  return maker.take();
}

}  // namespace tombolo::prefill
