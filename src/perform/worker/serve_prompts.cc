#include "perform/worker/serve_prompts.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

#include "perform/handover/decode_worker.h"
#include "perform/worker/shard_filler.h"
#ifdef TOMBOLO_TORCH
#include "perform/train/prefill_shard.h"
#include "perform/train/threads.h"
#endif

namespace tombolo::worker {
namespace {

// Whether the peer runs as the same user as this process, whatever the modes of folders allow.
bool is_of_this_user(int socket) {
  ucred other{};
  socklen_t size = sizeof other;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

Result<int> listen_at(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof at.sun_path)
    return unusable(fmt::format("\"{}\": no path for a socket", path), "one of up to 107 bytes");
  path.copy(at.sun_path, path.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  struct stat before {};
  if (lstat(path.c_str(), &before) == 0 && S_ISSOCK(before.st_mode)) unlink(path.c_str());
  const bool bound = listener >= 0 &&
                     bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 &&
                     chmod(path.c_str(), S_IRUSR | S_IWUSR) == 0 && ::listen(listener, 1) == 0;
  if (bound) return listener;
  const int error = errno;
  if (listener >= 0) ::close(listener);
  return unusable(fmt::format("{}: no socket for prompts: {}", path, std::strerror(error)),
                  "a path in a folder that can be written");
}

class PromptFiller final : public stage::Filler {
 public:
  PromptFiller(std::unique_ptr<generate::Shard> shard, const generate::EngineLimits& limits,
               std::string path, int listener, handover::HostServices host, PromptGaps gaps,
               std::optional<ShardRing> ring)
      : shard_(std::move(shard)),
        limits_(limits),
        path_(std::move(path)),
        listener_(listener),
        host_(std::move(host)),
        gaps_(gaps),
        ring_(std::move(ring)) {
    if (ring_) limits_.layers_counted = ring_->layers_max(shard_->facts().model);
  }
  ~PromptFiller() override {
    ::close(listener_);
    unlink(path_.c_str());
  }

  bool fill(SimTime until) override {
    if (!front_) accept_one();
    if (!front_) return false;
    const auto there = front_->listen(false);
    if (there && *there) return front_->do_layer_until(until);
    next_number_ = front_->next_number();
    front_.reset();
    if (ring_) ring_->say({.word = generate::ShardWord::kDropAll});
    return false;
  }

  std::optional<transport::Endpoint::Awaited> awaited() const override {
    return ring_ ? std::optional(ring_->awaited()) : std::nullopt;
  }
  // Messages for a front that has left are dropped.
  Status take(const link::Payload& message) override {
    return front_ ? front_->arrive(message) : Status{};
  }

 private:
  void accept_one() {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    if (!is_of_this_user(socket)) {
      ::close(socket);
      return;
    }
    OtherShards others{.first_number = next_number_};
    if (ring_) {
      others.shards = ring_->shards();
      others.say = [this](const generate::ShardMessage& message) { ring_->say(message); };
    }
    front_.emplace(*shard_, limits_, socket, host_, gaps_, std::move(others));
  }

  std::unique_ptr<generate::Shard> shard_;
  generate::EngineLimits limits_;
  std::string path_;
  int listener_;
  const handover::HostServices host_;
  PromptGaps gaps_;
  std::optional<ShardRing> ring_;
  std::optional<PromptDoor> front_;
  int64_t next_number_ = 1;
};

#ifdef TOMBOLO_TORCH
// Reads only the slice's part of the weights.
Result<std::unique_ptr<generate::Shard>> load(const PromptOptions& options,
                                              const std::optional<ShardRing>& ring = {}) {
  const weights::WeightFolder folder = TRY(weights::WeightFolder::open(options.weights));
  const model::Model& model = folder.config().model;
  if (ring && ring->shards() > model.layers) {
    return unusable(fmt::format("{} layers over {} ranks", model.layers, ring->shards()),
                    fmt::format("at most {} ranks", model.layers));
  }
  return train::load_shard(folder, ring ? ring->slice(model) : model::stage_slice(model, 1, 0),
                           options.context);
}
void compute_with(int64_t threads) { train::set_threads(threads); }
#else
Result<std::unique_ptr<generate::Shard>> load(const PromptOptions&,
                                              const std::optional<ShardRing>& = {}) {
  return unusable("this worker was built without LibTorch, which computes what prompts ask for",
                  "building it with: cmake --preset torch && cmake --build --preset torch");
}
void compute_with(int64_t) {}
#endif

}  // namespace

Status serve_prompts(const generate::Shard& shard, const generate::EngineLimits& limits, int socket,
                     handover::HostServices host) {
  PromptDoor listener(shard, limits, socket, std::move(host));
  while (TRY(listener.listen(true))) {
    if (!listener.idle()) listener.do_layer();
  }
  return {};
}

Status serve_prompts(const PromptOptions& options, int socket, handover::HostServices host) {
  compute_with(options.threads);
  const auto shard = TRY(load(options));
  return serve_prompts(*shard, options.limits, socket, std::move(host));
}

Status serve_decode(const PromptOptions& options, const generate::DecodePlace& place, int socket,
                    handover::HostServices host) {
  compute_with(options.threads);
  const auto shard = TRY(load(options));
  const auto worker = TRY(handover::DecodeWorker::listen(
      *shard, options.limits, place,
      [](const std::string& line) { fmt::print(stderr, "decode: {}\n", line); }, std::move(host)));
  const std::string ready =
      fmt::format("{}\n{}\n",
                  to_line(generate::WorkerMessage{.kind = generate::WorkerWord::kReady,
                                                  .facts = worker->facts()}),
                  worker->port());
  if (write(socket, ready.data(), ready.size()) != static_cast<ssize_t>(ready.size()))
    return failed("who started it does not listen");
  const std::atomic<bool> never{false};
  return worker->serve(never);
}

Result<std::unique_ptr<stage::Filler>> prompt_filler(std::unique_ptr<generate::Shard> shard,
                                                     const generate::EngineLimits& limits,
                                                     const std::string& path,
                                                     handover::HostServices host, PromptGaps gaps,
                                                     std::optional<ShardRing> ring) {
  if (ring && !ring->first()) {
    return std::make_unique<ShardFiller>(std::move(shard), limits.kv_bytes, std::move(*ring),
                                         std::move(host));
  }
  const int listener = TRY(listen_at(path));
  return std::make_unique<PromptFiller>(std::move(shard), limits, path, listener, std::move(host),
                                        gaps, std::move(ring));
}

Result<std::unique_ptr<stage::Filler>> prompt_filler(const PromptOptions& options,
                                                     const std::string& path,
                                                     handover::HostServices host, PromptGaps gaps,
                                                     std::optional<ShardRing> ring) {
  auto shard = TRY(load(options, ring));
  return prompt_filler(std::move(shard), options.limits, path, std::move(host), gaps,
                       std::move(ring));
}

}  // namespace tombolo::worker
