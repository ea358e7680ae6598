// The program `tombolo`: parses the command line, runs one command, prints its error, sets the exit
// code.
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>

#include "cli/astra_arguments.h"
#include "cli/commands.h"
#include "cli/crew.h"
#include "cli/sweep_arguments.h"

namespace {

using namespace tombolo;
using namespace tombolo::cli;

void add_input(CLI::App* command, InputOptions& in) {
  command->add_option("job", in.input, "job file (TOML) or Plan (JSON)")->required();
  command->add_option("--hardware", in.hardware, "hardware file written by tombolo profile");
  command->add_option("--seed", in.seed, "replaces [run].seed");
}

void add_json(CLI::App* command, bool& json) {
  command->add_flag("--json", json, "one JSON document on stdout, nothing else");
}

CLI::App* add_init(CLI::App& app, InitOptions& options) {
  CLI::App* command = app.add_subcommand(
      "init",
      "certificates for runs across hosts: on the first host alone, then --invite there and "
      "--join on each other");
  command->add_option("--directory", options.directory,
                      "of this host's credentials; left out: ~/.config/tombolo");
  command->add_option("--name", options.name, "of this host; left out: what it calls itself");
  CLI::Option* invite =
      command->add_option("--invite", options.invite, "name of a host that may join: waits for it");
  command->add_option("--for", options.lasts, "how long an invitation lasts")
      ->needs(invite)
      ->capture_default_str();
  command->add_option("--listen", options.listen, "HOST:PORT where the invited host calls")
      ->needs(invite)
      ->capture_default_str();
  CLI::Option* join = command
                          ->add_option("--join", options.join,
                                       "HOST:PORT and the invitation, or it comes from stdin")
                          ->expected(1, 2)
                          ->excludes(invite);
  CLI::Option* issue =
      command
          ->add_option("--issue", options.issue,
                       "name of a host: makes its credentials here, in a folder to carry")
          ->excludes(invite)
          ->excludes(join);
  command->add_option("--to", options.to, "that folder; left out: the name")->needs(issue);
  return command;
}

int finish(const Status& status) {
  std::cout.flush();
  if (!status) {
    std::cerr << status.error().text() << "\n";
    return status.error().exit_code();
  }
  if (!std::cout) {
    std::cerr << "stdout: cannot write the answer: the disk is full or the reader went away\n";
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a full disk or limit is an error message, not a signal

  if (argc > 1 && std::string_view(argv[1]) == "sweep" && mpirun_started_several()) {
    return finish(fail(become_crew(argv)));
  }

  CLI::App app{
      "Plans, simulates and runs large-model training where the network between the machines is "
      "the "
      "bottleneck.\nExit codes: 0 done; 2 what was given cannot be used; 3 no feasible plan; 1 "
      "anything "
      "else."};
  app.name("tombolo");
  app.set_version_flag("--version", "tombolo " + version());
  app.require_subcommand(1);

  SimulateOptions simulate_options;
  CLI::App* simulate_command =
      app.add_subcommand("simulate", "predict the timeline of a job or Plan");
  add_input(simulate_command, simulate_options.in);
  simulate_command->add_option("--iterations", simulate_options.iterations, "how many to simulate")
      ->check(CLI::Range(1, 1000000));
  simulate_command->add_option("--out", simulate_options.out,
                               "write the predicted Trace (JSON lines)");
  CLI::Option* simulate_policy = simulate_command->add_option(
      "--policy", simulate_options.policy,
      "another schedule than the job's: a name, or best, which searches");
  simulate_command
      ->add_flag("--no-split", simulate_options.no_split,
                 "best: gradients of inputs and weights stay together")
      ->needs(simulate_policy);
  simulate_command
      ->add_option("--measured", simulate_options.measured,
                   "best: Trace from which the stage times are taken")
      ->needs(simulate_policy);
  simulate_command->add_option("--out-plan", simulate_options.out_plan,
                               "write the Plan that performs what was predicted");
  simulate_command->add_flag("--ascii", simulate_options.ascii,
                             "draw the schedule in the terminal");
  add_json(simulate_command, simulate_options.json);

  ProfileOptions profile_options;
  CLI::App* profile_command =
      app.add_subcommand("profile", "measure this machine: every stage of a job, and its links");
  add_input(profile_command, profile_options.in);
  profile_command->add_option("--data", profile_options.in.data, "replaces [data].text");
  profile_command->add_option("--out", profile_options.out, "hardware file to write")
      ->capture_default_str();
  profile_command->add_option("--seconds", profile_options.seconds, "of timing per stage")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  profile_command->add_option("--worker", profile_options.worker, "path of tombolo-worker");
  add_json(profile_command, profile_options.json);

  TrainOptions train_options;
  bool show_capabilities = false;
  CLI::App* train_command = app.add_subcommand("train", "predict a job, then perform it");
  CLI::Option* train_job =
      train_command->add_option("job", train_options.in.input, "job file (TOML) or Plan (JSON)");
  train_command->add_option("--hardware", train_options.in.hardware,
                            "hardware file written by tombolo profile");
  train_command->add_option("--seed", train_options.in.seed, "replaces [run].seed");
  train_command->add_option("--data", train_options.in.data, "replaces [data].text");
  train_command->add_option("--steps", train_options.in.steps, "replaces [run].steps")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  train_command->add_option("--out", train_options.out, "folder for the Plan and the Traces")
      ->capture_default_str();
  train_command->add_flag("--resume", train_options.resume, "go on from the last checkpoint");
  train_command->add_option("--port", train_options.port, "of the launcher, on this host; 0: any");
  train_command->add_option("--rendezvous", train_options.rendezvous,
                            "HOST:PORT where ranks started by mpirun, torchrun or srun meet");
  train_command
      ->add_option("--join-timeout", train_options.join_timeout, "seconds for all these to come")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  train_command
      ->add_option("--restarts", train_options.restarts,
                   "how often to go on from one step when a worker or the launcher was lost (3; 0 "
                   "under mpirun, torchrun or srun, or with RANK)")
      ->check(CLI::Range(0, 1'000'000));
  train_command->add_flag("--spare", train_options.spare,
                          "wait in --out for the seat of a rank that was lost and does not come "
                          "again");
  CLI::Option* credentials =
      train_command->add_option("--credentials", train_options.credentials,
                                "folder with certificates: TLS between all processes; left out: "
                                "what tombolo init made, for a rendezvous on another host");
  train_command
      ->add_flag("--plain-tcp", train_options.plain_tcp,
                 "to other hosts in clear text: for networks that encrypt below")
      ->excludes(credentials);
  train_command->add_flag("--no-inbound", train_options.no_inbound,
                          "nobody can call this rank (of all that are started here): it calls, "
                          "or its links go through the coordinator");
  train_command->add_flag_callback(
      "--keep-state", [&] { train_options.keep_state = true; },
      "workers copy their state at every iteration, so that no more than one is repeated (default "
      "where every stage has replicas)");
  train_command->add_flag_callback(
      "--no-keep-state", [&] { train_options.keep_state = false; }, "they do not");
  train_command->add_option("--worker", train_options.worker, "path of tombolo-worker");
  train_command
      ->add_option("--metrics", train_options.metrics,
                   "ADDRESS:PORT where /metrics is served for Prometheus; port 0: any")
      ->capture_default_str();
  train_command->add_flag("--capabilities", show_capabilities,
                          "what can be planned and what can be run");
  add_json(train_command, train_options.json);

  InitOptions init_options;
  CLI::App* init_command = add_init(app, init_options);

  EstimateOptions estimate_options;
  CLI::App* estimate_command = app.add_subcommand(
      "estimate", "predict the iteration of a job by a law in closed form, without a Plan");
  estimate_command->add_option("job", estimate_options.job, "job file (TOML)")->required();
  estimate_command->add_option("--law", estimate_options.law, "rail-only");
  add_json(estimate_command, estimate_options.json);

  PlanCommandOptions plan_options;
  CLI::App* plan_command = app.add_subcommand(
      "plan", "search the parallelism of a job: the best, its rivals, and why not others");
  plan_command->add_option("job", plan_options.job, "job file (TOML)")->required();
  plan_command->add_option("--law", plan_options.law, "tombolo or rail-only")
      ->capture_default_str();
  plan_command->add_option("--objective", plan_options.objective, "time, cost or throughput")
      ->capture_default_str();
  plan_command->add_option("--top", plan_options.top, "how many to show")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  plan_command->add_option("--threads", plan_options.threads, "0: as many as there are")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  plan_command->add_flag("--all-devices", plan_options.all_devices, "let no device stay idle");
  plan_command->add_flag("--no-pruning", plan_options.no_pruning,
                         "evaluate every configuration: slower, the same answer");
  plan_command->add_option("--out", plan_options.out,
                           "write the best: plan.json for simulate and train, or job.toml");
  plan_command->add_option("--export", plan_options.export_to,
                           "the best in the words of megatron or torchtitan");
  add_json(plan_command, plan_options.json);

  SelectCommandOptions select_options;
  CLI::App* select_command = app.add_subcommand(
      "select", "which datacenters to use, and how many pipelines: Atlas' algorithm 1 and beyond");
  select_command->add_option("job", select_options.job, "job file (TOML)")->required();
  select_command->add_option("--order", select_options.order,
                             "in which datacenters are filled: availability, price, distance or "
                             "file; left out: [selection].order");
  add_json(select_command, select_options.json);

  SweepCommandOptions sweep_options;
  CLI::App* sweep_command = add_sweep(app, sweep_options);

  TrafficCommandOptions traffic_options;
  CLI::App* traffic_command = app.add_subcommand(
      "traffic", "bytes between every pair of GPUs, by kind of parallelism; a heat map");
  traffic_command->add_option("job", traffic_options.job, "job file (TOML)")->required();
  traffic_command->add_option("--report", traffic_options.report, "HTML page to write");
  traffic_command->add_option("--csv", traffic_options.csv,
                              "table to write: bytes from each block of GPUs to each");
  traffic_command->add_flag("--flat-rings", traffic_options.flat_rings,
                            "rings in the order of ranks, also where groups span domains");
  traffic_command->add_flag("--gather-again", traffic_options.gather_again,
                            "count inputs that sequence parallelism gathers again");
  add_json(traffic_command, traffic_options.json);

  ReproduceOptions reproduce_options;
  CLI::App* reproduce_command = app.add_subcommand(
      "reproduce", "published tables that we claim: ours, theirs, the gap; fails outside a band");
  reproduce_command->add_option("table", reproduce_options.table,
                                "rail-only/table-4, or rail-only for all of it; left out: all; "
                                "reference or reference/bloom: errors on published measurements");
  reproduce_command->add_option("--data", reproduce_options.data,
                                "reference: folder with other rows of these tables");
  reproduce_command->add_option("--law", reproduce_options.law, "reference: the law that predicts")
      ->capture_default_str();
  reproduce_command->add_flag("--rows", reproduce_options.rows, "reference: every row, too");
  add_json(reproduce_command, reproduce_options.json);

  CompareOptions compare_options;
  CLI::App* compare_command =
      app.add_subcommand("compare", "how far a prediction was from what happened");
  compare_command->add_option("predicted", compare_options.predicted, "Trace of simulate")
      ->required();
  compare_command->add_option("measured", compare_options.measured, "Trace of train")->required();
  compare_command
      ->add_option("--warmup", compare_options.warmup, "measured iterations to leave out")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  add_json(compare_command, compare_options.json);

  ReportOptions report_options;
  CLI::App* report_command =
      app.add_subcommand("report", "one self-contained HTML page from one or two Traces");
  report_command->add_option("traces", report_options.traces, "predicted, measured")->required();
  report_command->add_option("--out", report_options.out, "page to write")->capture_default_str();
  report_command->add_option("--title", report_options.title, "of the page");

  ConvertOptions convert_options;
  CLI::App* convert_command =
      app.add_subcommand("convert",
                         "Trace to perfetto or csv; job to plan, graph, schedule or chakra; Chakra "
                         "or PyTorch trace to chakra, chakra-json, dot or statistics");
  convert_command
      ->add_option("input", convert_options.input,
                   "Trace, Plan, job, Chakra trace or execution trace of PyTorch")
      ->required();
  convert_command->add_option("--to", convert_options.to, "what to write")
      ->required()
      ->check(CLI::IsMember({"perfetto", "csv", "plan", "graph", "schedule", "chakra",
                             "chakra-json", "dot", "statistics"}));
  convert_command->add_option(
      "--out", convert_options.out,
      "file to write; left out: stdout. Job to chakra: PREFIX of PREFIX.RANK.et");
  convert_command->add_option("--kineto", convert_options.kineto,
                              "PyTorch: Kineto's trace of the same run, which knows the times");
  convert_command->add_flag("--repair", convert_options.repair,
                            "Chakra: drop dependencies that cannot be, and list them");
  convert_command
      ->add_option("--granularity", convert_options.granularity,
                   "job with tensor, context or expert parallelism or ZeRO to chakra: nodes per "
                   "layer, or per stage")
      ->check(CLI::IsMember({"layer", "stage"}))
      ->capture_default_str();
  convert_command->add_option("--retarget", convert_options.retarget,
                              "Chakra traces PREFIX.RANK.et (input: PREFIX) to chakra: as of so "
                              "many ranks, with more or fewer data-parallel replicas");
  convert_command->add_option("--comm-groups", convert_options.comm_groups,
                              "--retarget: JSON, communicator group to ranks");
  convert_command
      ->add_option("--data-groups", convert_options.data_groups,
                   "--retarget: names of all groups that join replicas; left out: found")
      ->delimiter(',');
  convert_command->add_flag("--remote-parameters", convert_options.remote_parameters,
                            "job with ZeRO 3 to chakra: shards live in remote memory, loaded "
                            "before they are gathered and stored when they are summed");
  add_json(convert_command, convert_options.json);

  FabricOptions fabric_options;
  CLI::App* fabric_command = app.add_subcommand(
      "fabric", "what the network of a GPU cluster needs and costs: Clos, rail-only");
  CLI::Option* fabric_gpus =
      fabric_command->add_option("--gpus", fabric_options.gpus, "how many GPUs");
  fabric_command->add_option("--radix", fabric_options.radix, "ports of a switch")
      ->capture_default_str();
  CLI::Option* fabric_domain =
      fabric_command->add_option("--domain", fabric_options.domain, "GPUs of a scale-up domain")
          ->capture_default_str();
  fabric_command->add_option("--switch-port-price", fabric_options.switch_port_price, "USD")
      ->capture_default_str();
  fabric_command->add_option("--transceiver-price", fabric_options.transceiver_price, "USD")
      ->capture_default_str();
  fabric_command->add_option("--message", fabric_options.message,
                             "size such as 1GB: how long collectives take, too");
  fabric_command
      ->add_option("--domain-bandwidth", fabric_options.domain_bandwidth,
                   "of a GPU inside its domain")
      ->capture_default_str();
  fabric_command
      ->add_option("--port-bandwidth", fabric_options.port_bandwidth, "of a GPU into the network")
      ->capture_default_str();
  fabric_command->add_flag("--failures", fabric_options.failures,
                           "what a failed GPU, server, rail switch or link costs");
  fabric_command->add_option("--server", fabric_options.server,
                             "GPUs per server; left out: the domain if at most 16, else 1");
  fabric_command
      ->add_option("--optical-group", fabric_options.optical_group,
                   "GPUs that an optical switch inside a domain exchanges together")
      ->capture_default_str();
  CLI::Option* fabric_job =
      fabric_command
          ->add_option("--job", fabric_options.job,
                       "job whose GPUs the fabric joins: iterations per dollar, network included")
          ->excludes(fabric_gpus)
          ->excludes(fabric_domain);
  fabric_command->add_option("--law", fabric_options.law, "that predicts the job's iteration")
      ->needs(fabric_job);
  fabric_command
      ->add_option("--iteration", fabric_options.iteration,
                   "time of an iteration on full bisection, such as 12.5s, instead of a law")
      ->needs(fabric_job);
  fabric_command->add_option("--years", fabric_options.years, "until the network is written off")
      ->needs(fabric_job)
      ->capture_default_str();
  fabric_command
      ->add_flag("--price-includes-network", fabric_options.price_includes_network,
                 "the cluster's price of a device has a Clos in it")
      ->needs(fabric_job);
  add_json(fabric_command, fabric_options.json);

  ProbeCommandOptions probe_options;
  CLI::App* probe_command = app.add_subcommand(
      "probe", "what a path carries, by connections and congestion control; a [[wan]] block");
  probe_command->add_option("address", probe_options.address,
                            "HOST or HOST:PORT of the far side; with --listen of this one");
  probe_command->add_flag("--listen", probe_options.listen,
                          "be the far side: wait for one probe, answer it, end");
  probe_command->add_option("--token", probe_options.token,
                            "that --listen printed; left out: TOMBOLO_PROBE_TOKEN");
  probe_command->add_option("--connections", probe_options.connections, "left out: 1,2,4,8,16")
      ->delimiter(',')
      ->check(CLI::Range(1, 16));
  probe_command
      ->add_option("--congestion-controls", probe_options.congestion_controls,
                   "left out: all that both kernels have")
      ->delimiter(',');
  probe_command
      ->add_option("--between", probe_options.between,
                   "the datacenters' names in the [[wan]] block")
      ->delimiter(',');
  probe_command->add_option("--seconds", probe_options.seconds, "counted, per measurement")
      ->check(CLI::Range(0.1, 60.0))
      ->capture_default_str();
  probe_command->add_option("--rounds", probe_options.rounds, "of all measurements; their median")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  probe_command
      ->add_option("--wait", probe_options.wait_s, "--listen: seconds for the call to come")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  CLI::Option* probe_credentials =
      probe_command->add_option("--credentials", probe_options.credentials,
                                "folder that tombolo init made: TLS, to any address");
  probe_command->add_flag("--plain-tcp", probe_options.plain_tcp, "to other hosts in clear text")
      ->excludes(probe_credentials);
  add_json(probe_command, probe_options.json);

  StatusOptions status_options;
  CLI::App* status_command = app.add_subcommand(
      "status", "what a run is doing: loss, iteration time, links, queues, ranks");
  CLI::Option* status_at =
      status_command->add_option("--at", status_options.at, "ADDRESS:PORT of the run's --metrics");
  status_command->add_option("--out", status_options.out, "the run's folder")
      ->excludes(status_at)
      ->capture_default_str();
  status_command->add_flag("--once", status_options.once, "print it once, also on a terminal");
  add_json(status_command, status_options.json);

  AstraCommandOptions astra_options;
  CLI::App* astra_command = add_astra(app, astra_options);

  try {
    app.parse(argc, argv);
    if (*train_command && !show_capabilities && train_job->count() == 0) {
      throw CLI::RequiredError("job");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  if (*simulate_command) return finish(simulate(simulate_options, std::cout));
  if (*profile_command) return finish(profile(profile_options, std::cout));
  if (*train_command && show_capabilities) {
    std::cout << capabilities();
    return finish({});
  }
  if (*train_command) return finish(train(train_options, std::cout));
  if (*init_command) return finish(init(init_options, std::cout));
  if (*estimate_command) return finish(estimate(estimate_options, std::cout));
  if (*plan_command) return finish(plan(plan_options, std::cout));
  if (*select_command) return finish(select(select_options, std::cout));
  if (*sweep_command) return finish(sweep(sweep_options, std::cout));
  if (*traffic_command) return finish(traffic(traffic_options, std::cout));
  if (*reproduce_command) return finish(reproduce(reproduce_options, std::cout));
  if (*compare_command) return finish(compare(compare_options, std::cout));
  if (*probe_command) return finish(probe(probe_options, std::cout));
  if (*status_command) return finish(status(status_options, std::cout));
  if (*fabric_command) return finish(fabric(fabric_options, std::cout));
  if (*astra_command) return finish(astra(astra_options, std::cout));
  if (*report_command) return finish(report(report_options, std::cout));
  return finish(convert(convert_options, std::cout));
}
