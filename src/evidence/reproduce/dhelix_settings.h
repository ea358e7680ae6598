// The settings in which DHelix was measured, and a layer of each as two strands.
//
// Source: Wang et al. 2024, Hiding Communication Cost in Distributed LLM Training via Microbatch
// Co-execution (DHelix), arXiv 2411.15871, in its revision of 2025-02-21
// (github.com/1926627357/dhelix-data, paper.pdf). Throughputs are the heights of its bars, read from
// the vector graphics to 0.1 TFLOPS; gains are printed on them.
//
// What is fitted: throughputs of the baseline, Megatron-LM, alone, and no gain. 64 A40: products,
// attention, PCIe (the catalog's device-a40 and fabric-pcie4) and the share of InfiniBand's rate
// that is reached, on 13 bars. A800: the same share, on 5; the rest is the catalog's A100. H100:
// products and NVLink, on 3. What the paper leaves open: heads are not grouped (sizes fit grouped
// ones, shares of context communication do not), one sequence is a microbatch, vocabularies are
// 128,256 (8B, 405B), 32,000 (what the sizes of the others leave) and 51,200 (GPT).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "predict/cost/constants.h"
#include "predict/strand/strand_pair.h"
#include "spec/cluster/cluster.h"

namespace tombolo::reproduce {

enum class DhelixCluster : uint8_t { kA40, kA800, kH100 };

struct DhelixSetting {
  int figure = 0;
  DhelixCluster cluster = DhelixCluster::kA40;
  const char* name = "";
  bool llama = true;
  int64_t hidden = 0, ffn = 0, layers = 0, vocabulary = 0;
  int64_t data = 1, tensor = 8, pipeline = 1, context = 1, sequence = 8192;
  double baseline = 0;  // TFLOPS per GPU of Megatron-LM
  double gain = 1;      // of DHelix over it
  double wavelet = 0;   // of Wavelet+; 0: not published

  std::string label() const;  // "A40 Llama-8B cp2"
};
std::span<const DhelixSetting> dhelix_settings();
const DhelixSetting& dhelix_setting(std::string_view label);

// The machines, and what was fitted to their baselines.
cluster::Datacenter dhelix_site(DhelixCluster cluster);
cost::Constants dhelix_constants(DhelixCluster cluster);

// What Megatron-LM runs: inputs of column-parallel products are gathered again for the gradients of
// weights, while the gradients of inputs are computed.
struct DhelixLayer {
  strand::StrandPair pair;
  double layers = 0;  // of a stage
  double around = 0;  // seconds of head and embedding per microbatch, not interleaved
  double flops = 0;   // of a microbatch on a GPU

  // Of a microbatch on the last stage, forward and backward, where a layer takes `layer` seconds.
  double stage_seconds(double layer) const { return layers * layer + around; }
  double baseline_seconds() const;
  double tflops(double layer) const { return flops / stage_seconds(layer) / 1e12; }
  double gain(double layer) const { return baseline_seconds() / stage_seconds(layer); }
};
DhelixLayer dhelix_layer(const DhelixSetting& setting);

// The barrier of DHelix, a synchronisation of the device and the launches after it. Chosen before
// any gain was computed; table 7's launch intervals come to 146 to 319 us.
inline constexpr double kDhelixBarrier = 20e-6;

}  // namespace tombolo::reproduce
