#include "base/fields.h"
#include "base/file.h"
#include "base/toml.h"
#include "spec/plan/job.h"
#include "spec/plan/job_value.h"

namespace tombolo::plan {
namespace {

// As `path` names its files.
Value cluster_value(cluster::Cluster cluster, const std::string& path) {
  for (cluster::WanLink& link : cluster.wan) {
    if (!link.rate_trace.empty()) link.rate_trace = path_seen_from(path, link.rate_trace);
  }
  Value value = write_fields(cluster);
  Value::Array datacenters = *value.find("datacenter")->get<Value::Array>();
  for (size_t i = 0; i < datacenters.size(); ++i) {
    const cluster::Device& device = cluster.datacenters[i].device;
    const Result<cluster::Device> known = cluster::catalog_device(device.name);
    if (known && *known == device) datacenters[i].set("device", device.name);
  }
  value.set("datacenter", std::move(datacenters));
  return value;
}

Value times_value(const StageTimes& times) {
  Value::Table out;
  const auto list = [&](const char* key, const std::vector<Seconds>& given) {
    if (!given.empty()) out.emplace_back(key, per_stage_value(given));
  };
  list("forward", times.forward);
  list("backward", times.backward);
  list("backward_weight", times.backward_weight);
  list("recompute", times.recompute);
  list("pair", times.pair);
  list("pair_forward", times.pair_forward);
  if (times.reduce) out.emplace_back("reduce", format(*times.reduce));
  if (times.transfer) out.emplace_back("transfer", format(*times.transfer));
  if (times.latency) out.emplace_back("latency", format(*times.latency));
  if (times.in_flight) out.emplace_back("in_flight", *times.in_flight);
  return Value(std::move(out));
}

}  // namespace

std::string to_toml_text(const Job& job, const std::string& path, const std::string& comment) {
  Value::Table file;
  file.emplace_back("name", job.name);
  if (job.model) file.emplace_back("model", write_fields(*job.model));
  file.emplace_back("cluster", cluster_value(job.cluster, path));
  file.emplace_back("training", write_fields(job.training));
  file.emplace_back("optimizer", write_fields(job.optimizer));
  layout::Parallelism parallelism = job.parallelism;
  if (std::string& profile = parallelism.strands_profile; !profile.empty())
    profile = path_seen_from(path, profile);
  file.emplace_back("parallelism", write_fields(parallelism));
  if (job.stage_times) file.emplace_back("stage_times", times_value(*job.stage_times));
  append_run_tables(file, job, path);
  if (job.selection) file.emplace_back("selection", write_fields(*job.selection));
  std::string text;
  for (size_t begin = 0; begin < comment.size();) {
    const size_t end = std::min(comment.find('\n', begin), comment.size());
    text += "# " + comment.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return text + (text.empty() ? "" : "\n") + to_toml(Value(std::move(file)));
}

}  // namespace tombolo::plan
