#include "perform/train/messenger_store.h"

#include <cstring>
#include <utility>

namespace tombolo::train {
namespace {

using kernels::Payload;

// A message is the key's length (4 bytes, as this host orders them), the key, the value. An empty
// one says that nothing more comes.
Payload encode(const std::string& key, const std::vector<uint8_t>& value) {
  const auto length = static_cast<uint32_t>(key.size());
  Payload message(sizeof length + key.size() + value.size());
  std::memcpy(message.data(), &length, sizeof length);
  std::memcpy(message.data() + sizeof length, key.data(), key.size());
  if (!value.empty()) {
    std::memcpy(message.data() + sizeof length + key.size(), value.data(), value.size());
  }
  return message;
}

struct Entry {
  std::string key;
  std::vector<uint8_t> value;
};

std::optional<Entry> decode(const Payload& message) {
  uint32_t length = 0;
  if (message.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, message.data(), sizeof length);
  if (length > message.size() - sizeof length) return std::nullopt;
  const auto* key = reinterpret_cast<const char*>(message.data()) + sizeof length;
  const auto* value = reinterpret_cast<const uint8_t*>(key + length);
  return Entry{{key, length}, {value, value + (message.size() - sizeof length - length)}};
}

}  // namespace

MessengerStore::MessengerStore(const kernels::Replicas& replicas, uint64_t tensor)
    : replicas_(replicas), tag_{.iteration = 0, .tensor = tensor} {
  for (size_t i = 0; i < replicas_.ranks.size(); ++i) {
    const int32_t peer = replicas_.ranks[i];
    if (i != replicas_.own) listeners_.emplace_back([this, peer] { listen(peer); });
  }
}

void MessengerStore::close() {
  if (closed_) return;
  closed_ = true;
  tell_all({});
  for (std::thread& listener : listeners_) listener.join();
}

std::optional<Error> MessengerStore::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void MessengerStore::listen(int32_t peer) {
  while (true) {
    auto received = replicas_.messenger->receive(peer, tag_);
    if (!received) return fail_with(std::move(received.error()));
    if (received->payload.empty()) return;
    auto entry = decode(received->payload);
    if (!entry) {
      return fail_with({ErrorCode::kFailed,
                        fmt::format("rank {} told its address in {} bytes that are no message",
                                    peer, received->payload.size()),
                        {},
                        "the same version of tombolo-worker for all ranks"});
    }
    const std::lock_guard lock(mutex_);
    values_[entry->key] = std::move(entry->value);
    changed_.notify_all();
  }
}

void MessengerStore::tell_all(const Payload& message) {
  for (size_t i = 0; i < replicas_.ranks.size(); ++i) {
    if (i == replicas_.own) continue;
    Status sent = replicas_.messenger->send(replicas_.ranks[i], tag_, message);
    if (!sent) fail_with(std::move(sent.error()));
  }
}

// The first error is the cause of the others.
void MessengerStore::fail_with(Error error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  changed_.notify_all();
}

void MessengerStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  TORCH_CHECK(!closed_, "the replicas' store is closed: ", key, " cannot be set");
  tell_all(encode(key, value));
  const std::lock_guard lock(mutex_);
  values_[key] = value;
  changed_.notify_all();
}

std::vector<uint8_t> MessengerStore::get(const std::string& key) {
  wait({key});
  const std::lock_guard lock(mutex_);
  return values_.at(key);
}

void MessengerStore::wait(const std::vector<std::string>& keys,
                          const std::chrono::milliseconds& timeout) {
  std::unique_lock lock(mutex_);
  const auto settled = [&] { return error_ || has(keys); };
  if (timeout == kNoTimeout) {
    changed_.wait(lock, settled);
  } else {
    changed_.wait_for(lock, timeout, settled);
  }
  if (has(keys)) return;
  TORCH_CHECK(!error_, error_->message);
  TORCH_CHECK(false, "no replica told ", keys.front(), " within ", timeout.count(), " ms");
}

bool MessengerStore::has(const std::vector<std::string>& keys) const {
  for (const std::string& key : keys) {
    if (values_.count(key) == 0) return false;
  }
  return true;
}

bool MessengerStore::check(const std::vector<std::string>& keys) {
  const std::lock_guard lock(mutex_);
  return has(keys);
}

int64_t MessengerStore::getNumKeys() {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(values_.size());
}

int64_t MessengerStore::add(const std::string& key, int64_t) {
  TORCH_CHECK(false, "the replicas' store cannot count: ", key);
}

bool MessengerStore::deleteKey(const std::string& key) {
  TORCH_CHECK(false, "the replicas' store keeps what was told: ", key);
}

}  // namespace tombolo::train
