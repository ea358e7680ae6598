#include "perform/worker/serve_prompts.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "perform/generate/front_message.h"
#ifdef TOMBOLO_TORCH
#include "perform/train/prefill_shard.h"
#include "perform/train/threads.h"
#endif

namespace tombolo::worker {
namespace {

using generate::Engine;
using generate::FrontMessage;
using generate::FrontWord;
using generate::WorkerMessage;
using generate::WorkerWord;

class PromptDoor {
 public:
  PromptDoor(const generate::Shard& shard, const generate::EngineLimits& limits, int socket,
             const Clock& clock)
      : socket_(socket), engine_(shard, limits, clock) {}

  Status serve() {
    for (;;) {
      if (!TRY(listen())) return {};
      if (engine_.idle()) continue;
      engine_.do_layer([&](const generate::EngineEvent& event) { say(message_of(event)); });
    }
  }
  void say(const WorkerMessage& message) {
    const std::string line = to_line(message) + "\n";
    for (size_t done = 0; done < line.size();) {
      const ssize_t sent = send(socket_, line.data() + done, line.size() - done, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return;  // the other end has gone: the next read says so
      done += static_cast<size_t>(sent);
    }
  }

 private:
  // Takes what has come; waits for it where there is nothing else to do. False: nothing will come.
  Result<bool> listen() {
    pollfd asked{.fd = socket_, .events = POLLIN, .revents = 0};
    const int ready = poll(&asked, 1, engine_.idle() ? -1 : 0);
    if (ready == 0 || (ready < 0 && errno == EINTR)) return true;
    std::array<char, 65'536> bytes;
    const ssize_t got = recv(socket_, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) return true;
    if (got < 0) return failed(fmt::format("reading prompts: {}", std::strerror(errno)));
    if (got == 0) return false;
    TRY(lines_.add({bytes.data(), static_cast<size_t>(got)}));
    while (const auto line = lines_.next()) take(TRY(generate::parse_front(*line)));
    return true;
  }

  void take(const FrontMessage& message) {
    const int64_t id = message.request.id;
    if (message.kind == FrontWord::kCancel) return engine_.cancel(id);
    const auto refused = engine_.admit(message.request);
    if (!refused) return say({.kind = WorkerWord::kAdmitted, .id = id});
    say({.kind = WorkerWord::kRefused, .id = id, .why = refused->why, .message = refused->message});
  }

  int socket_;
  Engine engine_;
  generate::Lines lines_;
};

}  // namespace

Status serve_prompts(const generate::Shard& shard, const generate::EngineLimits& limits, int socket,
                     const Clock& clock) {
  const generate::ShardFacts& facts = shard.facts();
  PromptDoor door(shard, limits, socket, clock);
  door.say({.kind = WorkerWord::kReady,
            .facts = generate::WorkerFacts{.vocabulary = facts.model.vocabulary,
                                           .positions = facts.model.sequence,
                                           .weight_bytes = facts.weight_bytes,
                                           .kv_bytes_per_token = facts.kv().bytes(1),
                                           .kv_bytes_max = limits.kv_bytes}});
  return door.serve();
}

#ifdef TOMBOLO_TORCH
Status serve_prompts(const PromptOptions& options, int socket, const Clock& clock) {
  train::set_threads(options.threads);
  const weights::WeightFolder folder = TRY(weights::WeightFolder::open(options.weights));
  const auto shard = TRY(
      train::load_shard(folder, model::stage_slice(folder.config().model, 1, 0), options.context));
  return serve_prompts(*shard, options.limits, socket, clock);
}
#else
Status serve_prompts(const PromptOptions&, int, const Clock&) {
  return unusable("this worker was built without LibTorch, which computes what prompts ask for",
                  "building it with: cmake --preset torch && cmake --build --preset torch");
}
#endif

}  // namespace tombolo::worker
