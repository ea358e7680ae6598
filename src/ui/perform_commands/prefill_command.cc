#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/stop_signals.h"
#include "perform/join/run_prompts.h"
#include "perform/text/text_encoder.h"
#include "perform/weights/text_ends.h"
#include "perform/weights/weight_folder.h"
#include "ui/command/answer.h"
#include "ui/command/words.h"
#include "ui/perform_commands/perform_commands.h"
#include "ui/serve/api_server.h"
#include "ui/serve/flex_backend.h"
#include "ui/serve/lasting_backend.h"
#include "ui/serve/pool_backend.h"
#include "ui/serve/worker_backend.h"

namespace tombolo::perform_commands {
namespace {

namespace fs = std::filesystem;

constexpr SimDuration kGlance{200'000'000};

Result<int64_t> bytes_of(const std::string& text, const char* option) {
  const Bytes bytes = TRY(during(parse_quantity<Bytes>(text), fmt::format("reading {}", option)));
  if (!(bytes.value >= 1) || bytes.value > 1e15)
    return unusable(fmt::format("{} {}: no size of memory", option, text), "1 GiB");
  return static_cast<int64_t>(bytes.value);
}

Result<weights::TextEnds> ends_of(const std::string& folder, const weights::Config& config) {
  const std::string path = folder + "/generation_config.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return weights::text_ends(config, Value());
  return during(
      weights::text_ends(config, TRY(parse_json(TRY(read_file(path, int64_t{1} << 20)), path))),
      "reading " + path);
}

Result<SimDuration> time_of(const std::string& text, const char* option, const char* usual) {
  const Seconds time =
      TRY(during(parse_quantity<Seconds>(text), fmt::format("reading {}", option)));
  if (!(time.value >= 0.001) || time.value > 86'400)
    return unusable(fmt::format("{} {}: not between 1 ms and a day", option, text), usual);
  return round_to_ns(time);
}

Result<serve::ServeLimits> limits_of(const PrefillOptions& options) {
  serve::ServeLimits out{.body_bytes = TRY(bytes_of(options.body, "--body")),
                         .prompt_tokens = options.prompt_tokens,
                         .answer_tokens = options.answer_tokens,
                         .requests = options.requests};
  out.flex_requests = options.flex_requests;
  out.answer_time = TRY(time_of(options.answer_time, "--answer-time", "5 min"));
  out.flex_patience = TRY(time_of(options.flex_patience, "--flex-patience", "10 min"));
  return out;
}

// The decode worker that finishes answers; nothing if they are finished here. By address, so that no other
// process has to resolve its name.
Result<std::optional<generate::DecodePlace>> decode_place(const PrefillOptions& options) {
  if (options.decode.empty()) {
    if (options.credentials.empty() && !options.plain_tcp && options.decode_token.empty())
      return std::nullopt;
    return unusable("--credentials, --plain-tcp and --decode-token are about a decode worker",
                    "--decode HOST:PORT");
  }
  const auto at = TRY(during(transport::parse_address(options.decode), "reading --decode"));
  const char* variable = std::getenv(join::kDecodeTokenVariable);
  std::string token = options.decode_token;
  if (token.empty() && variable) token = variable;
  if (token.empty()) {
    return unusable(
        "the decode worker's token is missing",
        fmt::format("--decode-token, or {}: tombolo decode prints it", join::kDecodeTokenVariable));
  }
  TRY(during(link::Token::parse(token), "reading the decode worker's token"));
  std::string credentials = options.credentials;
  if (!credentials.empty()) credentials = fs::absolute(credentials).string();
  return generate::DecodePlace{.host = TRY(transport::resolve(at.host)),
                               .port = at.port,
                               .token = token,
                               .credentials = credentials,
                               .plain_tcp = options.plain_tcp,
                               .connections = options.decode_connections};
}

// Name, keys, certificate and all that the folder says of its texts.
Result<serve::ServeOptions> serve_options(const PrefillOptions& options,
                                          const text::TextEncoder& tokenizer) {
  const weights::WeightFolder folder = TRY(weights::WeightFolder::open(options.weights));
  const model::Model& model = folder.config().model;
  if (tokenizer.vocabulary() > model.vocabulary) {
    return unusable(fmt::format("{}: its vocabulary has {} tokens, the model's {}",
                                options.tokenizer_path(), tokenizer.vocabulary(), model.vocabulary),
                    "the tokenizer of this model");
  }
  if (options.certificate.empty() != options.private_key.empty())
    return unusable("--certificate and --private-key belong together", "both, or none");
  const weights::TextEnds ends = TRY(ends_of(options.weights, folder.config()));
  // A tokenizer.json says what stands around a text; of SentencePiece's models the family does.
  const text::TextFrame around =
      tokenizer.around().value_or(text::TextFrame{.before = ends.begin, .after = {}});
  serve::ServeOptions out{
      .listen = TRY(during(transport::parse_address(options.listen), "reading --listen")),
      .certificate = options.certificate,
      .private_key = options.private_key,
      .limits = TRY(limits_of(options)),
      .model = options.name,
      .begin = around.before,
      .after = around.after,
      .end = ends.end};
  if (!options.api_keys.empty()) out.keys = TRY(serve::ApiKeys::read(options.api_keys));
  if (out.model.empty()) {
    const fs::path path = fs::weakly_canonical(options.weights);
    out.model = path.filename().string();
  }
  const auto chat = from_name<serve::ChatTemplate>(options.chat);
  out.chat = chat ? *chat : serve::template_of(tokenizer);
  if (out.chat != serve::ChatTemplate::kPlain && out.chat != serve::template_of(tokenizer))
    return unusable(fmt::format("--chat {}: the tokenizer lacks its special tokens", options.chat),
                    "auto");
  out.seed = std::random_device{}();
  out.unix_time = [] {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
  };
  return out;
}

void say_ready(const PrefillOptions& options, const serve::ServeOptions& serve,
               const generate::WorkerFacts& facts, const transport::Address& at,
               std::ostream& out) {
  const std::string url =
      fmt::format("{}://{}/v1", serve.certificate.empty() ? "http" : "https", at.text());
  if (options.json) {
    command::print_json(out, {{"url", url},
                              {"model", serve.model},
                              {"positions", facts.positions},
                              {"weight_bytes", facts.weight_bytes},
                              {"kv_bytes_per_token", facts.kv_bytes_per_token},
                              {"kv_bytes_max", facts.kv_bytes_max}});
  } else {
    out << fmt::format(
        "{} answers at {}\n  weights {}, keys and values {} a token, {} for all prompts together\n"
        "  up to {} tokens of prompt and answer, {} prompts at once, {} that may wait{}\n",
        serve.model, url, brief(Bytes{real(facts.weight_bytes)}),
        brief(Bytes{real(facts.kv_bytes_per_token)}), brief(Bytes{real(facts.kv_bytes_max)}),
        facts.positions, serve.limits.requests, serve.limits.flex_requests,
        serve.keys.empty() ? "; any user of this machine may ask" : "");
  }
  out.flush();
}

Result<SimDuration> patience_of(const PrefillOptions& options) {
  const Seconds time = TRY(during(parse_quantity<Seconds>(options.patience), "reading --patience"));
  if (!(time.value >= 1) || time.value > 86'400)
    return unusable(fmt::format("--patience {}: not between 1 s and a day", options.patience),
                    "30 s");
  return round_to_ns(time);
}

// `run`: a socket, or nothing for a worker of its own.
Result<serve::WorkerOptions> worker_options(const PrefillOptions& options, const std::string& run) {
  return serve::WorkerOptions{.run = run,
                              .program = options.worker,
                              .weights = options.weights,
                              .context = options.context,
                              .kv_bytes = TRY(bytes_of(options.kv_memory, "--kv-memory")),
                              .requests = options.requests,
                              .threads = options.threads,
                              .decode = TRY(decode_place(options)),
                              .silence = TRY(patience_of(options))};
}

Result<serve::LastingOptions> lasting_options(const PrefillOptions& options) {
  serve::LastingOptions out{.patience = TRY(patience_of(options))};
  out.prompt_patience = std::min(out.prompt_patience, out.patience);
  out.log = [](const std::string& line) { fmt::print(stderr, "prefill: {}\n", line); };
  return out;
}

// The next worker, of the same model: clients were told its length.
serve::LastingBackend::Open opener(const serve::WorkerOptions& wanted,
                                   const generate::WorkerFacts& facts) {
  return [wanted, facts](SimDuration patience,
                         const std::atomic<bool>& stop) -> Result<std::unique_ptr<serve::Backend>> {
    serve::WorkerOptions now = wanted;
    now.greeting = patience;
    auto next = TRY(serve::WorkerBackend::start(now, stop));
    if (next->facts() == facts) return next;
    return failed("it has another model now");
  };
}

// Each of the runs' pipelines, or a worker of its own; all with the same model, whose facts are given.
Result<std::vector<std::unique_ptr<serve::Backend>>> open_backends(const PrefillOptions& options,
                                                                   const Clock& clock,
                                                                   generate::WorkerFacts& facts) {
  const serve::LastingOptions lasting = TRY(lasting_options(options));
  const std::atomic<bool> never{false};
  std::vector<std::unique_ptr<serve::Backend>> all;
  const std::vector<std::string> alone = {""};
  for (const std::string& run : options.runs.empty() ? alone : options.runs) {
    const serve::WorkerOptions wanted = TRY(worker_options(options, run));
    auto worker = TRY(serve::WorkerBackend::start(wanted, never));
    if (all.empty()) facts = worker->facts();
    if (worker->facts() != facts) {
      return unusable(fmt::format("--run {}: another model, or another memory, than that of {}",
                                  run, options.runs.front()),
                      "pipelines of one run, with as many ranks each");
    }
    all.push_back(std::make_unique<serve::LastingBackend>(std::move(worker), opener(wanted, facts),
                                                          lasting, clock));
  }
  return all;
}

}  // namespace

std::string PrefillOptions::tokenizer_path() const {
  return tokenizer.empty() ? weights + "/tokenizer.json" : tokenizer;
}

Status prefill(const PrefillOptions& options, std::ostream& out) {
  StopSignals signals(SecondSignal::kEnds);
  const auto tokenizer = TRY(text::read_tokenizer(options.tokenizer_path()));
  serve::ServeOptions serve = TRY(serve_options(options, *tokenizer));
  if (options.runs.size() > 1 && !options.decode.empty())
    return unusable("--decode: a decode worker has one pipeline before it", "one --run");
  SystemClock clock;
  generate::WorkerFacts facts;
  serve::PoolBackend backend(TRY(open_backends(options, clock, facts)));
  serve.positions = facts.positions;
  serve::FlexBackend flex(backend, {.patience = serve.limits.flex_patience}, clock);
  const auto server = TRY(serve::ApiServer::open(serve, flex, *tokenizer, clock));
  say_ready(options, serve, facts, server->address(), out);
  while (!signals.flag()) {
    if (!backend.alive()) return failed(backend.end());
    clock.sleep_until(clock.now() + kGlance);
  }
  return {};
}

command::Command add_prefill(CLI::App& app) {
  auto options = std::make_shared<PrefillOptions>();
  CLI::App* words = command::add_command(
      app, {"prefill", command::kServing, "answer prompts over OpenAI's HTTP API",
            "tombolo serve --weights weights --listen 127.0.0.1:8000"});
  words->alias("serve");
  command::heading(words, command::kGoesIn);
  words->add_option("--weights", options->weights, "config.json and safetensors")
      ->type_name("FOLDER")
      ->required();
  words
      ->add_option("--tokenizer", options->tokenizer,
                   "tokenizer.json or tokenizer.model; left out: WEIGHTS/tokenizer.json")
      ->type_name("FILE");
  words->add_option("--listen", options->listen, "port 0: any that is free")
      ->type_name("ADDRESS:PORT");
  words->add_option("--name", options->name, "of the model, for clients; left out: the folder's")
      ->type_name("NAME");
  command::choices(words->add_option("--chat", options->chat, "how a chat becomes a prompt"),
                   {"auto", "chatml", "llama3", "plain"});
  words
      ->add_option("--api-keys", options->api_keys,
                   "a key a line, readable by its owner alone; left out: every client is answered")
      ->type_name("FILE");
  words->add_option("--certificate", options->certificate, "PEM: HTTPS, as other hosts need it")
      ->type_name("FILE");
  words->add_option("--private-key", options->private_key, "PEM, of the certificate")
      ->type_name("FILE");
  command::heading(words, "What is answered");
  add_prompt_limits(words, options->context, options->kv_memory);
  words->add_option("--requests", options->requests, "answered at once; others get 429")
      ->check(CLI::Range(1, 1024));
  words->add_option("--prompt-tokens", options->prompt_tokens, "of a prompt, at most")
      ->type_name("TOKENS")
      ->check(CLI::PositiveNumber);
  words->add_option("--answer-tokens", options->answer_tokens, "of an answer, at most")
      ->type_name("TOKENS")
      ->check(CLI::PositiveNumber);
  words->add_option("--answer-time", options->answer_time, "of an answer, at most")
      ->type_name("TIME");
  words
      ->add_option("--flex-requests", options->flex_requests,
                   "that may wait (\"service_tier\": \"flex\"), at once; others get 429")
      ->check(CLI::Range(0, 1024));
  words
      ->add_option("--flex-patience", options->flex_patience,
                   "of a request that may wait, until it is begun")
      ->type_name("TIME");
  words->add_option("--body", options->body, "of a request, at most")->type_name("SIZE");
  command::heading(words, command::kPerformed);
  words
      ->add_option(
          "--run", options->runs,
          "socket of a run: it answers in its gaps (train --prompt-weights); once for each "
          "pipeline of its ranks")
      ->type_name("FILE")
      ->allow_extra_args(false);
  words
      ->add_option("--patience", options->patience,
                   "with a run or a decode worker that is silent, and with one that has gone")
      ->type_name("TIME");
  command::add_threads(words, options->threads, 1);
  command::add_worker(words, options->worker);
  command::heading(words, "With a decode worker");
  words->add_option("--decode", options->decode, "of a tombolo decode, which finishes the answers")
      ->type_name("HOST:PORT");
  words
      ->add_option("--decode-token", options->decode_token,
                   "that it printed; left out: TOMBOLO_DECODE_TOKEN")
      ->type_name("TOKEN");
  words
      ->add_option("--decode-connections", options->decode_connections,
                   "that carry keys and values there")
      ->check(CLI::Range(1, 16));
  command::add_credentials(words, options->credentials, options->plain_tcp);
  command::heading(words, command::kComesOut);
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return prefill(*options, out); }, true};
}

}  // namespace tombolo::perform_commands
