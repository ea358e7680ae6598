#include "evidence/reproduce/dhelix_settings.h"

#include "base/check.h"
#include "predict/cost/iteration.h"
#include "predict/cost/layer_time.h"
#include "predict/strand/gain_spread.h"
#include "predict/strand/layer_strands.h"
#include "spec/cluster/cluster.h"
#include "spec/model/model.h"

namespace tombolo::reproduce {
namespace {

constexpr auto kA40 = DhelixCluster::kA40;
constexpr auto kA800 = DhelixCluster::kA800;
constexpr auto kH100 = DhelixCluster::kH100;
constexpr int64_t kHead = 128;  // numbers in one

// figure, cluster, name, llama; hidden, ffn, layers, vocabulary; data, tensor, pipeline, context,
// sequence; TFLOPS of the baseline, gain, Wavelet+.
constexpr DhelixSetting kSettings[] = {
    {11, kA40, "Llama-8B", true, 4096, 14336, 32, 128256, 16, 4, 1, 1, 8192, 64.4, 1.31, 1.06},
    {11, kA40, "Llama-25B", true, 8192, 28672, 28, 32000, 8, 8, 1, 1, 8192, 53.9, 1.40, 1.16},
    {11, kA40, "Llama-39B", true, 16384, 53248, 12, 32000, 4, 8, 2, 1, 8192, 68.1, 1.27, 1.02},
    {11, kA40, "GPT-6.7B", false, 4096, 16384, 32, 51200, 16, 4, 1, 1, 8192, 61.6, 1.26, 1.13},
    {11, kA40, "GPT-18B", false, 6144, 24576, 40, 51200, 8, 8, 1, 1, 8192, 40.6, 1.40, 1.12},
    {11, kA40, "GPT-30B", false, 12288, 49152, 16, 51200, 4, 8, 2, 1, 8192, 57.8, 1.36, 1.13},
    {12, kA40, "Llama-8B", true, 4096, 14336, 32, 128256, 8, 4, 1, 2, 16384, 59.8, 1.30, 1.12},
    {12, kA40, "Llama-25B", true, 8192, 28672, 28, 32000, 4, 8, 1, 2, 16384, 38.4, 1.30, 1.07},
    {12, kA40, "Llama-39B", true, 16384, 53248, 12, 32000, 2, 8, 2, 2, 16384, 51.9, 1.39, 1.07},
    {12, kA40, "GPT-6.7B", false, 4096, 16384, 32, 51200, 8, 4, 1, 2, 16384, 57.3, 1.31, 1.12},
    {12, kA40, "GPT-18B", false, 6144, 24576, 40, 51200, 4, 8, 1, 2, 16384, 28.4, 1.22, 1.08},
    {12, kA40, "GPT-30B", false, 12288, 49152, 16, 51200, 2, 8, 2, 2, 16384, 41.9, 1.23, 1.10},
    {15, kA40, "Llama-39B", true, 16384, 53248, 12, 32000, 1, 8, 2, 4, 32768, 35.4, 1.28, 0},
    {13, kA800, "Llama-66B", true, 8192, 28672, 76, 32000, 2, 8, 2, 2, 16384, 186.0, 1.07, 1.02},
    {13, kA800, "Llama-66B", true, 8192, 28672, 76, 32000, 1, 8, 2, 4, 32768, 160.9, 1.24, 1.09},
    {14, kA800, "405B-L8", true, 16384, 53248, 8, 128256, 1, 8, 1, 1, 8192, 214.5, 1.03, 0},
    {14, kA800, "405B-L14", true, 16384, 53248, 14, 128256, 1, 16, 1, 1, 8192, 174.4, 1.15, 0},
    {14, kA800, "405B-L24", true, 16384, 53248, 24, 128256, 1, 32, 1, 1, 8192, 134.0, 1.29, 0},
    {14, kH100, "405B-L6", true, 16384, 53248, 6, 128256, 1, 8, 1, 1, 8192, 500.6, 1.05, 0},
    {14, kH100, "405B-L12", true, 16384, 53248, 12, 128256, 1, 16, 1, 1, 8192, 447.2, 1.13, 0},
    {14, kH100, "405B-L20", true, 16384, 53248, 20, 128256, 1, 32, 1, 1, 8192, 367.1, 1.17, 0}};

const char* cluster_name(DhelixCluster cluster) {
  return cluster == kA40 ? "A40" : cluster == kA800 ? "A800" : "H100";
}

model::Model model_of(const DhelixSetting& s) {
  model::Model m = *model::preset(s.llama ? "llama3-8b" : "gpt3-175b");
  m.name = s.name;
  m.hidden = s.hidden;
  m.ffn = s.ffn;
  m.layers = s.layers;
  m.heads = m.kv_heads = s.hidden / kHead;
  m.sequence = s.sequence;
  m.vocabulary = s.vocabulary;
  return m;
}

}  // namespace

// Section 6.1: eight GPUs a node; PCIe 4.0 at 32 GB/s and one port of 100 Gbps; NVLink of 400 GB/s
// both ways and 4 x 200 Gbps; NVLink of 900 GB/s both ways and 8 x 400 Gbps.
cluster::Datacenter dhelix_site(DhelixCluster cluster) {
  cluster::Datacenter site;
  site.name = cluster_name(cluster);
  site.nodes = cluster == kH100 ? 4 : 8;
  site.devices_per_node = 8;
  const char* device = cluster == kA40 ? "a40-48g" : cluster == kA800 ? "a800-80g" : "h100-80g";
  site.device = *cluster::catalog_device(device);
  site.scale_up.domain = 8;
  site.scale_up.bandwidth = cluster == kA40 ? 32_GBps : cluster == kA800 ? 200_GBps : 450_GBps;
  site.scale_out.bandwidth = (cluster == kA40    ? 100_Gbps
                              : cluster == kA800 ? 800_Gbps
                                                 : 3200_Gbps) /
                             8;
  return site;
}

// What was fitted beyond the catalog.
cost::Constants dhelix_constants(DhelixCluster cluster) {
  cost::Constants constants = *cost::find_constants(dhelix_site(cluster), "megatron");
  if (cluster == kA40) constants.scale_out.efficiency = 0.81;
  if (cluster == kA800) constants.scale_out.efficiency = 0.98;
  if (cluster == kH100) {
    constants.device.matmul_efficiency = 0.64;
    constants.scale_up.efficiency = 0.72;
  }
  return constants;
}

std::string DhelixSetting::label() const {
  std::string out = fmt::format("{} {}", cluster_name(cluster), name);
  return context > 1 ? out + fmt::format(" cp{}", context) : out;
}

std::span<const DhelixSetting> dhelix_settings() { return kSettings; }

const DhelixSetting& dhelix_setting(std::string_view label) {
  for (const DhelixSetting& each : kSettings) {
    if (each.label() == label) return each;
  }
  CHECK(false, "DHelix was not measured in \"{}\"", label);
}

double DhelixLayer::baseline_seconds() const {
  return stage_seconds(strand::sequential_seconds(pair));
}

DhelixLayer dhelix_layer(const DhelixSetting& s) {
  const cluster::Datacenter site = dhelix_site(s.cluster);
  const cost::Constants constants = dhelix_constants(s.cluster);
  const model::Model m = model_of(s);
  const cost::LayerPricer pricer(m, site, constants, 2, false);
  const cost::Configuration c{{.tensor = s.tensor,
                               .context = s.context,
                               .data = s.data,
                               .pipeline = s.pipeline,
                               .sequence_parallel = true},
                              1};
  const cost::GroupPlacement layout = cost::lay_out(c, site.scale_up.domain);
  const strand::LayerStrands strands =
      strand::layer_strands(strand::shape_of(c, layout, true), pricer.operators(c, layout, false));
  cost::LayerTime ends = pricer.head(c, layout);
  const cost::LayerTime embedding = pricer.embedding(c);
  ends.forward += embedding.forward;
  ends.backward += embedding.backward;
  return {.pair = strand::StrandPair(strands.forward, strands.backward,
                                     strand::published_overlap(site.device.name).table),
          .layers = real(s.layers) / real(s.pipeline),
          .around = ends.forward.compute + ends.forward.tensor + ends.backward.compute +
                    ends.backward.tensor,
          .flops = cost::model_flops(m, 1).value / real(s.tensor * s.context * s.pipeline)};
}

}  // namespace tombolo::reproduce
