// Commands that perform, and what a run needs around it: train, tune, profile, roofline, tokenize,
// export, probe, status, init.
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
#include "ui/command/command.h"

namespace tombolo::perform_commands {

struct ProfileOptions {
  command::InputOptions in;
  Seconds time{5};  // of timing, after the warm-up
  std::string out = "hardware.json";
  std::string worker;    // path of tombolo-worker; empty: next to this program
  bool overlap = false;  // operators of a layer and their pairs, for strands, instead of stages
  bool json = false;
};
Status profile(const ProfileOptions& options, std::ostream& out);
command::Command add_profile(CLI::App& app);

struct RooflineOptions {
  std::string out = "cpu.toml";
  int64_t threads = 1;                             // of a rank
  int64_t ranks = 1;                               // that measure at once
  std::vector<int64_t> hidden = {256, 512, 1024};  // sizes of the layers; near those to be trained
  Seconds time{5};                                 // of timing, about
  std::string worker;  // path of tombolo-worker; empty: next to this program
  bool json = false;
};
// This machine's processor as a device of a job, instead of the catalog's.
Status roofline(const RooflineOptions& options, std::ostream& out);
command::Command add_roofline(CLI::App& app);

struct TrainOptions {
  command::InputOptions in;
  std::string out = "run";  // folder for plan.json, predicted.jsonl, trace.jsonl
  std::string board;        // folder for dashboards; empty: none
  std::string checkpoints;  // folder of this host's checkpoints; empty: the job's
  bool resume = false;
  std::string init;        // folder with weights to begin with; empty: the job's, or none
  uint16_t port = 0;       // of the launcher; 0: any
  std::string rendezvous;  // HOST:PORT for ranks that mpirun, torchrun or srun start; empty: theirs
  std::string listen;      // address of this host; empty: the way to the rendezvous
  std::string advertise;   // where other hosts connect to it; empty: there
  std::string ports;       // FIRST-LAST, on which ranks listen; empty: any
  Seconds join_timeout{60};   // for all ranks to join
  std::string credentials;    // folder; empty: what init made, where the rendezvous is elsewhere
  bool plain_tcp = false;     // to other hosts, in clear text
  bool no_inbound = false;    // no rank can connect to the ranks of this process
  std::string lease;          // the shortest lease, a duration; empty: as long as the grace
  std::string grace = "60s";  // the longest tolerated silence, a duration
  // How often to restart after lost workers, in a row from the same step; left out: 3, or 0 if ranks
  // are started one by one.
  std::optional<int> restarts;
  bool spare = false;              // stand by for a vacant rank of such a run,
  std::string datacenter;          // in this one; empty: in any
  std::optional<bool> keep_state;  // left out: where there are replicas
  std::string prompt_weights;  // folder: ranks answer prompts with it while they wait; empty: none
  std::string prompt_socket;   // path, for `tombolo prefill --run`; empty: OUT/prompts.socket
  // Which ranks answer, each with its share of the layers; with one, that one has the whole model.
  std::vector<std::string> prompt_ranks = {"0"};
  std::string prompt_memory = "1 GiB";  // of keys and values
  std::string prompt_piece = "5 ms";    // the longest layer where the Plan predicts no gap
  int64_t prompt_load = 0;  // tokens of each prompt of a load for emulated ranks; 0: none
  std::string worker;
  bool capabilities = false;            // print what can be planned and what can be run, and end
  std::string metrics = "127.0.0.1:0";  // where /metrics and /status are served; port 0: any
  bool json = false;
};
// If mpirun, torchrun or srun started one process per rank, rank 0 does all this, and the others
// become workers: for them it returns only errors from before that.
Status train(const TrainOptions& options, std::ostream& out);
command::Command add_train(CLI::App& app);

struct TuneOptions {
  command::InputOptions in;
  int64_t probes = 30;
  std::optional<int64_t>
      probe_steps;  // of the job's batch; left out: a tenth of the job's, at least 30
  std::optional<int64_t> batch_max;  // left out: four times the job's
  double density_min = 0.002;
  std::vector<std::string>
      rates;                 // of the slowest line; empty: a sixteenth to sixteen times the job's
  std::string profile;       // file of such trainings; empty: they are made
  std::string out = "tune";  // folder for profile.json and trainings.json
  std::string worker;
  int threads = 0;  // of the search
  bool json = false;
};
// What compression and batches cost a model in convergence, measured, and what to set for a line.
Status tune(const TuneOptions& options, std::ostream& out);
command::Command add_tune(CLI::App& app);

struct TokenizeOptions {
  std::string tokenizer;           // tokenizer.json
  std::vector<std::string> files;  // texts, each a document; of a .jsonl every line is one
  std::string out = "tokens";      // of PREFIX.bin and PREFIX.idx
  std::string format = "megatron";
  std::string dtype;           // empty: the narrowest for the vocabulary
  std::string begin, end;      // tokens around every document; empty: none
  bool jsonl = false;          // files have an object in every line, whatever their names
  std::string field = "text";  // of such a line
  bool skip_bad = false;       // leaves out lines without it
  bool json = false;
};
// Files of token ids for training.
Status tokenize(const TokenizeOptions& options, std::ostream& out);
command::Command add_tokenize(CLI::App& app);

struct ExportCommandOptions {
  std::string checkpoint;  // folder of checkpoints, or of one
  std::string out;
  std::string family;  // empty: by the model
  std::string like;    // folder whose config.json is handed on
  std::string dtype = "f32";
  std::string file_size = "5 GB";
  bool json = false;
};
// Writes weights for other programs (weights::export_weights).
Status export_checkpoint(const ExportCommandOptions& options, std::ostream& out);
command::Command add_export(CLI::App& app);

struct PrefillOptions {
  std::string weights;    // folder
  std::string tokenizer;  // file; empty: the folder's
  std::string listen = "127.0.0.1:8000";
  // Sockets of a run, or of several, that answer in their gaps; none: a worker of its own.
  std::vector<std::string> runs;
  std::string name;  // of the model; empty: the folder's
  int64_t context = 0;
  std::string kv_memory = "1 GiB";
  int64_t requests = 16;
  int64_t threads = 1;
  int64_t prompt_tokens = 8192;
  int64_t answer_tokens = 4096;
  std::string answer_time = "5 min";
  int64_t flex_requests = 64;
  std::string flex_patience = "10 min";
  std::string patience = "30 s";
  std::string body = "1 MiB";
  std::string api_keys;  // file; empty: any client that can reach the address is served
  std::string certificate, private_key;
  std::string chat = "auto";
  std::string worker;
  std::string decode;        // HOST:PORT of a decode worker that finishes the answers; empty: none
  std::string decode_token;  // that it printed; empty: kDecodeTokenVariable
  int64_t decode_connections = 4;
  std::string credentials;  // folder: TLS to the decode worker
  bool plain_tcp = false;
  bool json = false;

  std::string tokenizer_path() const;
};
// Answers prompts until a signal comes (serve::ApiServer, serve::WorkerBackend).
Status prefill(const PrefillOptions& options, std::ostream& out);
command::Command add_prefill(CLI::App& app);

struct DecodeOptions {
  std::string weights;  // folder
  std::string listen = "127.0.0.1:29610";
  std::string token;  // 32 hexadecimal digits; empty: kDecodeTokenVariable, or drawn
  std::string credentials;
  bool plain_tcp = false;
  int64_t context = 0;
  std::string kv_memory = "1 GiB";
  int64_t requests = 64;
  int64_t threads = 1;
  std::string worker;
  bool json = false;
};
// Finishes answers to prompts that were read elsewhere, until a signal comes (handover::DecodeWorker).
Status decode(const DecodeOptions& options, std::ostream& out);
command::Command add_decode(CLI::App& app);
// --context and --kv-memory, of prefill and decode.
void add_prompt_limits(CLI::App* words, int64_t& context, std::string& kv_memory);

struct InitOptions {
  std::string directory;  // of this host's credentials; empty: trust::default_directory()
  std::string name;       // of this host; empty: what it calls itself
  std::string invite;     // name of a host that may join; this one waits for it
  std::string lasts = "15min";
  std::string listen = "0.0.0.0:29510";
  std::vector<std::string> join;  // HOST:PORT, and the invitation unless it comes from stdin
  bool renew = false;             // this host's certificate
  std::string refuse;             // name of a host
  std::string issue;              // name of a host whose credentials are made here
  std::string to;                 // folder for them; empty: the name
};
// Credentials for runs across hosts: an authority, and a certificate for every host.
Status init(const InitOptions& options, std::ostream& out);
command::Command add_init(CLI::App& app);

// What plans can describe, and what train can run.
std::string capabilities();

struct ProbeCommandOptions {
  std::string address;  // HOST or HOST:PORT, of the far side or, with listen, of this one
  bool listen = false;
  std::string token;                             // empty: TOMBOLO_PROBE_TOKEN; listen: a new one
  std::vector<uint32_t> connections;             // empty: 1, 2, 4, 8, 16
  std::vector<std::string> congestion_controls;  // empty: all that both kernels have
  std::vector<std::string> between = {"here", "there"};
  std::string credentials;  // folder; empty: none, and nothing leaves this machine or its islands
  bool plain_tcp = false;   // to other hosts, in clear text
  Seconds time{2};          // counted, per measurement
  int rounds = 2;
  Seconds wait{600};  // listen: for the other side to call
  bool json = false;
};
// Both directions of a path between two hosts, and a [[wan]] block to paste.
Status probe(const ProbeCommandOptions& options, std::ostream& out);
command::Command add_probe(CLI::App& app);

struct StatusOptions {
  std::string out = "run";  // the folder that `tombolo train --out` was given
  std::string at;           // ADDRESS:PORT of its metrics, instead of the folder
  bool once = false;
  bool json = false;
};
// What this machine has, line by line; exits with 0 also if something is missing.
command::Command add_doctor(CLI::App& app);

// The state of a run in progress; on a terminal redrawn every second until the run ends.
Status status(const StatusOptions& options, std::ostream& out);
command::Command add_status(CLI::App& app);

}  // namespace tombolo::perform_commands
