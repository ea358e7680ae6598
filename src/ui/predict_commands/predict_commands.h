// Commands that predict: simulate, estimate, traffic, strand, fabric, convert (astra:
// astra_command.h).
//
// Each is a function over plain options that writes its answer to a stream. Its add_NAME function
// defines its words on the command line (ui/command/command.h).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/value.h"
#include "decide/search/fabric_price.h"
#include "decide/search/job_tiling.h"
#include "spec/chakra/chakra.h"
#include "spec/plan/job.h"
#include "spec/plan/plan.h"
#include "ui/command/command.h"

namespace tombolo::predict_commands {

struct SimulateOptions {
  command::InputOptions in;
  int iterations = 1;
  bool over_time = false;  // iterations were asked for: what changes between them changes
  std::string out;         // Trace
  std::string policy;      // replaces the schedule: a name, or "best"; empty: as it stands
  bool no_split = false;   // best: gradients of inputs and weights stay together
  bool prove = false;      // best: say whether anything is shorter
  std::string measured;    // best: Trace from which stage times are taken
  bool strands = false;    // co-execute pairs of passes, as strands of a layer take them
  std::string out_plan;    // Plan
  bool ascii = false;
  bool check = false;
  std::string prefill;         // recorded requests for the model of [prefill]; empty: none
  double prefill_scale = 1;    // of their rate
  bool no_suspension = false;  // a shard runs within one window
  bool prefill_batch = false;  // requests queue instead of being refused
  std::string prefill_decode;  // datacenter of the decode workers; empty: the pipeline's own
  bool json = false;
};
Status simulate(const SimulateOptions& options, std::ostream& out);
command::Command add_simulate(CLI::App& app);

struct EstimateOptions {
  std::string job;
  std::string law;      // empty: the default (cost::find_law)
  std::string report;   // HTML page to write; empty: none
  std::string command;  // what the page says made it
  bool json = false;
};
Status estimate(const EstimateOptions& options, std::ostream& out);
command::Command add_estimate(CLI::App& app);

struct TrafficCommandOptions {
  std::string job;
  std::string report;         // HTML page to write; empty: none
  std::string csv;            // blocks of at most 256 x 256; empty: none
  bool flat_rings = false;    // workload::TrafficOptions
  bool gather_again = false;  // workload::VolumeOptions
  bool json = false;
};
Status traffic(const TrafficCommandOptions& options, std::ostream& out);
command::Command add_traffic(CLI::App& app);

struct StrandCommandOptions {
  std::string job;
  std::string beside;     // another job, to show its plan next to it; empty: none
  std::string profile;    // overlap profile (CSV); empty: published overlap
  bool barriers = false;  // perform with them, instead of events
  std::string barrier = "20us";
  int segment = 4;  // strand::SearchOptions
  int64_t layers = 1;
  bool gather_again = false;
  bool dense = false;
  std::vector<std::string> copies;  // "local", "cross"
  std::vector<double> sm_shares;
  std::string report;  // HTML page to write; empty: none
  bool json = false;
};
// Infeasible, after its answer: strands that are not worth it.
Status strands(const StrandCommandOptions& options, std::ostream& out);
command::Command add_strand(CLI::App& app);

struct ConvertOptions {
  std::string input;  // a Trace, a Plan, a job, a Chakra trace or an execution trace of PyTorch
  // perfetto | csv (of a Trace); plan | graph | schedule (of a job or Plan); chakra (of all but a
  // Trace); chakra-json | dot | statistics (of a Chakra or PyTorch trace)
  std::string to;
  std::string out;      // empty: stdout. Of a job or Plan to chakra: PREFIX of PREFIX.RANK.et
  std::string kineto;   // Kineto's trace of the same run, for one of PyTorch
  bool repair = false;  // drop edges of a Chakra trace that cannot be, and list them
  bool json = false;    // statistics as one JSON document
  // Of a job to chakra, where its layers are split: a node per half a layer, or one per stage.
  std::string granularity = "layer";
  // Of Chakra traces PREFIX.RANK.et (`input` is then PREFIX): as traces of this many ranks.
  std::optional<int64_t> retarget;
  std::string comm_groups;               // file of their communicator groups; empty: none
  std::vector<std::string> data_groups;  // those that join replicas; empty: found
  bool remote_parameters = false;  // of a job with ZeRO 3 to chakra: shards live in remote memory
};
Status convert(const ConvertOptions& options, std::ostream& out);
command::Command add_convert(CLI::App& app);

struct FabricOptions {
  int64_t gpus = 0;
  int64_t radix = 64;                     // ports of a switch
  int64_t domain = 8;                     // GPUs that share a scale-up domain
  std::string switch_port_price = "748";  // USD
  std::string transceiver_price = "374";
  std::string message;  // "1GB": collective times too; empty: none
  std::string domain_bandwidth = "900GBps";
  std::string port_bandwidth = "400Gbps";
  bool failures = false;
  std::optional<int64_t> server;  // GPUs; left out: the domain up to 16, else 1
  int64_t optical_group = 8;      // GPUs that an optical switch in a domain exchanges together
  // With a job its GPUs, domain and bandwidths count instead of the above; iterations per dollar.
  std::string job;
  std::vector<std::string> jobs;        // that share one cluster: its GPUs count, and are tiled
  std::string law;                      // empty: the default (cost::find_law)
  std::string iteration;                // "12.5s", measured on full bisection, instead of a law
  double years = 3;                     // until the network is written off
  bool price_includes_network = false;  // the cluster's price of a device has a Clos in it
  std::string report;                   // HTML page to write; empty: none
  std::string command;                  // what the page says made it
  bool json = false;
};
Status fabric(const FabricOptions& options, std::ostream& out);
command::Command add_fabric(CLI::App& app);

// What `tombolo convert` makes of an execution trace: the other form, a drawing or statistics. The
// file is read twice and never held: first to see whether its graph is sound (or what has to be
// dropped), then to write.
Status convert_chakra(const ConvertOptions& options, chakra::TraceFormat format, std::ostream& out);

// Of a Plan: OUT.RANK.et for each rank, and OUT.groups.json where collectives join some ranks only.
Status write_plan_as_chakra(const plan::Plan& plan, const ConvertOptions& options,
                            std::ostream& out);

// The same of a job whose layers are split in ways that no Plan has yet (workload/workload.h): rank
// by rank, as many as there are.
Status write_job_as_chakra(const plan::Job& job, const ConvertOptions& options, std::ostream& out);

// Traces of all ranks of a run, with another number of data-parallel replicas (chakra/retarget.h).
Status convert_retargeted(const ConvertOptions& options, std::ostream& out);

// The part of `tombolo fabric` that takes a job: iterations per dollar with each fabric.
struct PricedJob {
  plan::Job job;
  std::string source;  // of the iteration: "law rail-only", "given"
  search::FabricPrices prices;
};

// Reads the job of `options`, takes its iteration from --iteration or the law, and prices both
// fabrics.
Result<PricedJob> price_job(const FabricOptions& options,
                            const network::EquipmentPrices& equipment);

void print_priced_job(std::ostream& out, const PricedJob& priced);
Value priced_job_json(const PricedJob& priced);

// The part of `tombolo fabric` that takes several jobs: which rails of which domains each gets.
struct SharedCluster {
  cluster::Datacenter datacenter;
  std::string law;
  search::JobTiling tiling;
};
Result<SharedCluster> share_cluster(const FabricOptions& options);
void print_shared_cluster(std::ostream& out, const SharedCluster& shared);
Value shared_cluster_json(const SharedCluster& shared);
// Infeasible, after the answer: jobs without a place, and what is short.
Status all_have_a_place(const SharedCluster& shared);

}  // namespace tombolo::predict_commands
