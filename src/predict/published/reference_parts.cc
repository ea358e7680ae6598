#include <numeric>

#include "base/check.h"
#include "predict/published/reference_rows.h"

namespace tombolo::published::detail {

tl::unexpected<Error> leave_out(const CsvRow& row, std::string_view column,
                                const std::string& why) {
  Error error = row.complaint(column, why);
  error.code = ErrorCode::kInfeasible;
  return fail(std::move(error));
}

model::Model gpt(const GptShape& shape) {
  model::Model m;
  m.name = fmt::format("gpt-{}x{}", shape.layers, shape.hidden);
  m.layers = shape.layers;
  m.hidden = shape.hidden;
  m.heads = m.kv_heads = shape.heads;
  m.ffn = 4 * shape.hidden;
  m.vocabulary = shape.vocabulary;
  m.sequence = shape.sequence;
  m.norm = model::Norm::kLayer;
  m.activation = model::Activation::kGelu;
  m.positions = model::Positions::kLearned;
  m.bias = true;
  m.tied_embeddings = true;
  return m;
}

Result<model::Model> preset_of(const CsvRow& row, const std::string& prefix) {
  Result<model::Model> model = model::preset(prefix + TRY(row.text("model")));
  if (!model) return leave_out(row, "model", model.error().message);
  if (row.has("seq")) {
    model->sequence = TRY(degree(row, "seq"));
    model->positions_max.reset();
  }
  if (row.has("layers")) model->layers = TRY(degree(row, "layers"));
  return model;
}

Result<cluster::Cluster> machines(const CsvRow& row, const std::string& device,
                                  BytesPerSecond per_device) {
  return machines(TRY(cluster::catalog_device(device)), TRY(degree(row, "gpus")), per_device);
}

// Per device and direction: NVLink 2 has 150 GBps, 3 has 300, 4 has 450, 5 has 900.
cluster::Cluster machines(cluster::Device device, int64_t devices, BytesPerSecond per_device) {
  CHECK(devices >= 1 && per_device.value > 0, "{} of {} joined by {} B/s", devices, device.name,
        per_device.value);
  const std::string& name = device.name;
  const bool rack = name.starts_with("gb");
  const bool volta = name.starts_with("v100");
  const bool geforce = name.starts_with("rtx-");
  const bool hopper = name.starts_with("h");
  const bool blackwell = rack || name.starts_with("b");
  cluster::Datacenter site;
  site.name = "site";
  site.devices_per_node = std::gcd(devices, rack || volta || geforce ? 4 : 8);
  site.nodes = devices / site.devices_per_node;
  // A GB200 NVL72 joins 72 devices, of which runs on powers of two take 64.
  site.scale_up.domain = rack ? 64 : volta || geforce ? 4 : 8;
  site.scale_up.bandwidth = blackwell ? 900_GBps : hopper ? 450_GBps : volta ? 150_GBps : 300_GBps;
  site.scale_out.bandwidth = per_device;
  site.device = std::move(device);
  return cluster::Cluster{{std::move(site)}, {}};
}

// InfiniBand or RoCE port of one device: A100 200 Gbps, Hopper and Blackwell 400, GB300 800. Of GeForce cards
// four share a card of 100 Gbps.
BytesPerSecond port_of(const std::string& device) {
  return device.starts_with("rtx-")                                 ? 25_Gbps
         : device.starts_with("v100")                               ? 100_Gbps
         : device.starts_with("a100") || device.starts_with("a800") ? 200_Gbps
         : device == "gb300"                                        ? 800_Gbps
                                                                    : 400_Gbps;
}

Result<int64_t> degree(const CsvRow& row, std::string_view column) {
  if (!row.has(column)) return 1;
  const int64_t value = TRY(row.count(column));
  if (value < 1) return fail(row.complaint(column, "must be at least 1"));
  return value;
}

Status read_shared_columns(const CsvRow& row, plan::Job& job) {
  layout::Parallelism& p = job.parallelism;
  p.tensor = TRY(degree(row, "tp"));
  p.pipeline = TRY(degree(row, "pp"));
  p.context = TRY(degree(row, "cp"));
  p.expert = TRY(degree(row, "ep"));
  p.virtual_stages = TRY(degree(row, "vp"));
  if (p.virtual_stages > 1) p.schedule = layout::ScheduleKind::kInterleaved;
  const int64_t devices = TRY(degree(row, "gpus"));
  const int64_t others = p.tensor * p.pipeline * p.context;
  p.data = row.has("dp") ? TRY(degree(row, "dp")) : devices / others;
  if (p.data * others != devices) {
    return leave_out(row, "gpus",
                     fmt::format("tensor x pipeline x context x data is {}", p.data * others));
  }
  job.training.micro_batch = TRY(degree(row, "mbs"));
  job.training.global_batch =
      row.has("gbs") ? TRY(degree(row, "gbs")) : job.training.micro_batch * p.data;
  return {};
}

Seconds iteration_of(const plan::Job& job, double tokens_per_device_second) {
  CHECK(tokens_per_device_second > 0, "{} tokens per second", tokens_per_device_second);
  CHECK(job.model, "{}: a job without a model", job.name);
  const int64_t devices = job.cluster.devices();
  const auto tokens = static_cast<double>(job.model->sequence * job.training.global_batch);
  return 1_s * (tokens / (tokens_per_device_second * static_cast<double>(devices)));
}

std::string name_of(const plan::Job& job) {
  CHECK(job.model && !job.cluster.datacenters.empty(), "a name for {} on {} datacenters",
        job.model ? job.model->name : "no model", job.cluster.datacenters.size());
  const layout::Parallelism& p = job.parallelism;
  std::string name = fmt::format("{} {}x{}", job.model->name, job.cluster.devices(),
                                 job.cluster.datacenters[0].device.name);
  const auto add = [&](const char* letters, int64_t number, int64_t usual) {
    if (number != usual) name += fmt::format(" {}{}", letters, number);
  };
  add("tp", p.tensor, 1);
  add("cp", p.context, 1);
  add("ep", p.expert, 1);
  add("pp", p.pipeline, 1);
  add("vp", p.virtual_stages, 1);
  add("dp", p.data, 1);
  add("zero", p.zero, 0);
  add("mbs", job.training.micro_batch, 0);
  add("gbs", job.training.global_batch, 0);
  return name;
}

}  // namespace tombolo::published::detail

namespace tombolo::published {

cluster::Datacenter machines_as_sold(const cluster::Device& device, int64_t devices) {
  cluster::Datacenter site =
      detail::machines(device, devices, detail::port_of(device.name)).datacenters[0];
  const std::string& name = device.name;
  // Without NVLink, PCIe 4.0 x16; the NVLink of an A800 is cut to 400 GB/s both ways.
  const bool pcie4 =
      name == "a40-48g" || name == "l40s" || name == "rtx-3090" || name == "rtx-4090";
  if (pcie4) site.scale_up.bandwidth = 32_GBps;
  if (name == "rtx-2080-ti") site.scale_up.bandwidth = 16_GBps;  // 3.0
  if (name == "rtx-5090") site.scale_up.bandwidth = 64_GBps;     // 5.0
  if (name == "a800-80g") site.scale_up.bandwidth = 200_GBps;
  return site;
}

}  // namespace tombolo::published
