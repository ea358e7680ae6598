#include "base/fields.h"
#include "base/file.h"
#include "base/toml.h"
#include "spec/plan/job.h"

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
