// The commands of the program `tombolo`, as functions over plain options.
//
// A command writes its answer to the stream it is given, either text for people or (json) one
// document, and progress to stderr. Errors come back; cli_main.cc prints them and sets the exit
// code.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tombolo::cli {

// "0.1.0 (1a2b3c4)".
std::string version();

// What every command that starts from a job or a Plan takes.
struct InputOptions {
  std::string input;             // a job (TOML) or a Plan (JSON)
  std::string hardware;          // hardware file of `tombolo profile`; empty: none
  std::string data;              // replaces [data].text
  std::optional<int64_t> steps;  // replaces [run].steps
  std::optional<uint64_t> seed;  // replaces [run].seed
};

struct SimulateOptions {
  InputOptions in;
  int iterations = 1;
  std::string out;        // Trace
  std::string policy;     // replaces the schedule: a name, or "best"; empty: as it stands
  bool no_split = false;  // best: gradients of inputs and weights stay together
  std::string measured;   // best: Trace from which stage times are taken
  std::string out_plan;   // Plan
  bool ascii = false;
  bool json = false;
};
Status simulate(const SimulateOptions& options, std::ostream& out);

struct ProfileOptions {
  InputOptions in;
  double seconds = 5;  // of timing, after the warm-up
  std::string out = "hardware.json";
  std::string worker;  // path of tombolo-worker; empty: beside this program
  bool json = false;
};
Status profile(const ProfileOptions& options, std::ostream& out);

struct TrainOptions {
  InputOptions in;
  std::string out = "run";  // folder for plan.json, predicted.jsonl, trace.jsonl
  bool resume = false;
  uint16_t port = 0;       // of the launcher; 0: any
  std::string rendezvous;  // HOST:PORT for ranks that mpirun, torchrun or srun start; empty: theirs
  double join_timeout = 60;  // seconds, for all of these to come
  std::string credentials;   // folder; empty: what init made, where the rendezvous is elsewhere
  bool plain_tcp = false;    // to other hosts, in clear text
  bool no_inbound = false;   // nobody can call the ranks of this process
  // After lost workers, in a row from one step; left out: 3, or 0 where ranks are started one by
  // one.
  std::optional<int> restarts;
  bool spare = false;              // wait for a seat of such a run
  std::optional<bool> keep_state;  // left out: where there are replicas
  std::string worker;
  std::string metrics = "127.0.0.1:0";  // where /metrics and /status are served; port 0: any
  bool json = false;
};
// Started once per rank by mpirun, torchrun or srun, rank 0 does all this, and the other processes
// become workers: for them it returns only what went wrong before.
Status train(const TrainOptions& options, std::ostream& out);

struct InitOptions {
  std::string directory;  // of this host's credentials; empty: trust::default_directory()
  std::string name;       // of this host; empty: what it calls itself
  std::string invite;     // name of a host that may join; this one waits for it
  std::string lasts = "15min";
  std::string listen = "0.0.0.0:29510";
  std::vector<std::string> join;  // HOST:PORT, and the invitation unless it comes from stdin
  std::string issue;              // name of a host whose credentials are made here
  std::string to;                 // folder for them; empty: the name
};
// Credentials for runs across hosts: an authority, and a certificate for every host.
Status init(const InitOptions& options, std::ostream& out);

// What plans can describe, and what train can run.
std::string capabilities();

struct EstimateOptions {
  std::string job;
  std::string law;  // empty: the default, planner::law_names().front()
  bool json = false;
};
Status estimate(const EstimateOptions& options, std::ostream& out);

struct PlanCommandOptions {
  std::string job;
  std::string law = "tombolo";
  std::string objective = "time";  // time, cost or throughput
  int top = 5;
  int threads = 0;           // 0: as many as the machine has
  bool all_devices = false;  // none may stay idle
  bool no_pruning = false;   // evaluate every configuration
  std::string out;           // plan.json or job.toml of the best; empty: none
  std::string export_to;     // megatron or torchtitan; empty: neither
  bool json = false;
};
Status plan(const PlanCommandOptions& options, std::ostream& out);

struct SelectCommandOptions {
  std::string job;
  std::string order;  // availability, price, distance or file; empty: [selection].order
  bool json = false;
};
Status select(const SelectCommandOptions& options, std::ostream& out);

struct SweepCommandOptions {
  std::string job;
  std::vector<std::string> vary;   // "path=a,b,c", each an axis of the grid
  std::string ask = "simulate";    // planner::SweepAsk
  std::string policy;              // of simulate: a schedule, or "best"; empty: the job's
  std::string law = "tombolo";     // of estimate and plan
  std::string objective = "time";  // of plan
  std::string out;                 // rows.csv or rows.jsonl; empty: none
  std::string report;              // HTML page to write; empty: none
  std::string x, y, by;            // of its charts; empty: chosen
  int threads = 0;                 // 0: as many as the machine has
  bool json = false;
};
class Crew;  // crew.h: the processes that share the grid; null: this one alone
Status sweep(const SweepCommandOptions& options, std::ostream& out, Crew* crew = nullptr);

struct TrafficCommandOptions {
  std::string job;
  std::string report;         // HTML page to write; empty: none
  std::string csv;            // blocks of at most 256 x 256; empty: none
  bool flat_rings = false;    // planner::TrafficOptions
  bool gather_again = false;  // planner::VolumeOptions
  bool json = false;
};
Status traffic(const TrafficCommandOptions& options, std::ostream& out);

struct ReproduceOptions {
  std::string table;  // "rail-only/table-4", or "rail-only" for all of it; empty: all claims
  // Only for "reference" and "reference/TABLE", measurements that a law is held against:
  std::string data;             // folder of rows to read instead of the program's; empty: those
  std::string law = "tombolo";  // that predicts them
  bool rows = false;            // each row, not only the table
  bool json = false;
};
Status reproduce(const ReproduceOptions& options, std::ostream& out);
// What `reproduce` answers for reference tables; `table` is "" for all, else its short name.
Status reproduce_reference(const ReproduceOptions& options, std::string_view table,
                           std::ostream& out);

struct CompareOptions {
  std::string predicted;
  std::string measured;
  int64_t warmup = 1;  // iterations of the measured trace to leave out
  bool json = false;
};
Status compare(const CompareOptions& options, std::ostream& out);

struct ReportOptions {
  std::vector<std::string> traces;
  std::string out = "report.html";
  std::string title;
};
Status report(const ReportOptions& options, std::ostream& out);

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
  // Of Chakra traces PREFIX.RANK.et, then `input` is PREFIX: as traces of so many ranks.
  std::optional<int64_t> retarget;
  std::string comm_groups;               // file of their communicator groups; empty: none
  std::vector<std::string> data_groups;  // those that join replicas; empty: found
  bool remote_parameters = false;  // of a job with ZeRO 3 to chakra: shards live in remote memory
};
Status convert(const ConvertOptions& options, std::ostream& out);

struct ProbeCommandOptions {
  std::string address;  // HOST or HOST:PORT, of the far side or, with listen, of this one
  bool listen = false;
  std::string token;                             // empty: TOMBOLO_PROBE_TOKEN; listen: a new one
  std::vector<uint32_t> connections;             // empty: 1, 2, 4, 8, 16
  std::vector<std::string> congestion_controls;  // empty: all that both kernels have
  std::vector<std::string> between = {"here", "there"};
  std::string credentials;  // folder; empty: none, and nothing leaves this machine or its islands
  bool plain_tcp = false;   // to other hosts, in clear text
  double seconds = 2;       // counted, per measurement
  int rounds = 2;
  double wait_s = 600;  // listen: for somebody to call
  bool json = false;
};
// Both directions of a path between two hosts, and a [[wan]] block to paste.
Status probe(const ProbeCommandOptions& options, std::ostream& out);

struct StatusOptions {
  std::string out = "run";  // the folder that `tombolo train --out` was given
  std::string at;           // ADDRESS:PORT of its metrics, instead of the folder
  bool once = false;
  bool json = false;
};
// What a run that goes on is doing; on a terminal drawn again every second until the run ends.
Status status(const StatusOptions& options, std::ostream& out);

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
  std::string law;                      // empty: the default, planner::law_names().front()
  std::string iteration;                // "12.5s", measured on full bisection, instead of a law
  double years = 3;                     // until the network is written off
  bool price_includes_network = false;  // the cluster's price of a device has a Clos in it
  bool json = false;
};
Status fabric(const FabricOptions& options, std::ostream& out);

}  // namespace tombolo::cli
