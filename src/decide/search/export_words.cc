#include "decide/search/export_words.h"

#include <algorithm>
#include <string>
#include <vector>

namespace tombolo::search::detail {
namespace {

// The kinds of ranks that there are several of.
std::vector<std::string> ranks_in_order(const layout::Parallelism& p, std::string_view order) {
  std::vector<std::string> kinds;
  for (std::string_view rest = order; !rest.empty();) {
    const std::string_view kind = rest.substr(0, rest.find('-'));
    rest.remove_prefix(std::min(rest.size(), kind.size() + 1));
    const int64_t degree = kind == "tp"   ? p.tensor
                           : kind == "cp" ? p.context
                           : kind == "dp" ? p.data
                           : kind == "pp" ? p.pipeline
                                          : 1;
    if (degree > 1) kinds.emplace_back(kind);
  }
  return kinds;
}

}  // namespace

bool same_order(const layout::Parallelism& p, std::string_view order) {
  return ranks_in_order(p, p.order) == ranks_in_order(p, order);
}

bool uneven(const plan::Job& job) {
  const std::vector<model::Slice> slices = plan::split_layers(*job.model, job.parallelism);
  return std::any_of(slices.begin(), slices.end(), [&](const model::Slice& slice) {
    return slice.layers != slices.front().layers;
  });
}

int64_t microbatches(const plan::Job& job) {
  return job.training.global_batch / (job.training.micro_batch * job.parallelism.data);
}

void leave_out_for_all(const plan::Job& job, Export& out) {
  if (job.optimizer.name_in_use() != plan::OptimizerName::kAdamW) {
    out.notes.push_back(fmt::format("optimizer.name = \"{}\": the optimizer is yours to choose",
                                    to_name(job.optimizer.name_in_use())));
  }
  if (!job.parallelism.microbatches_per_replica.empty()) {
    out.notes.push_back("microbatches_per_replica: all replicas get as many");
  }
}

}  // namespace tombolo::search::detail
