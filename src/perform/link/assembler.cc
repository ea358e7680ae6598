#include "perform/link/assembler.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/check.h"

namespace tombolo::link {
namespace {

// The bytes of `piece`, which begins at `begin`, that lie under the frame; nothing where the frame
// is not wholly covered.
std::optional<std::span<const std::byte>> under(const FrameHeader& header, uint64_t begin,
                                                std::span<const std::byte> piece) {
  if (header.offset < begin || header.offset + header.length > begin + piece.size())
    return std::nullopt;
  return piece.subspan(header.offset - begin, header.length);
}

}  // namespace

bool SeenNumbers::contains(uint64_t number) const {
  const auto next = runs_.upper_bound(number);
  return next != runs_.begin() && number <= std::prev(next)->second;
}

void SeenNumbers::add(uint64_t number) {
  CHECK(number > 0 && !contains(number), "number {} twice", number);
  const auto next = runs_.upper_bound(number);
  uint64_t last = number;
  if (next != runs_.end() && next->first == number + 1) {
    last = next->second;
    runs_.erase(next);
  }
  const auto after = runs_.upper_bound(number);
  if (after != runs_.begin() && std::prev(after)->second + 1 == number) {
    std::prev(after)->second = last;
  } else {
    runs_.emplace(number, last);
  }
}

uint64_t SeenNumbers::without_gap() const {
  return !runs_.empty() && runs_.begin()->first == 1 ? runs_.begin()->second : 0;
}

// What can be said without the message's other segments.
Result<bool> Assembler::check(const FrameHeader& header) const {
  const Tag tag{header.iteration, header.tag};
  if (header.sender != options_.sender)
    return failed(fmt::format("a frame of rank {} on the connection of rank {}", header.sender,
                              options_.sender));
  if (header.epoch != options_.epoch)
    return failed(
        fmt::format("a frame of membership epoch {} in epoch {}", header.epoch, options_.epoch));
  if (header.total > options_.message_max)
    return failed(fmt::format("{} has {} bytes, the limit is {}", text(tag), header.total,
                              options_.message_max));
  if (header.length == 0 && header.total > 0)
    return failed(fmt::format("an empty frame inside {}", text(tag)));
  if (header.message == 0 || header.message == UINT64_MAX || header.after >= header.message)
    return failed(fmt::format("message {} after message {}", header.message, header.after));
  const auto held = held_.find(header.message);
  if (released_.contains(header.message) || held != held_.end()) {
    if (!options_.repeats)
      return failed(
          fmt::format("message {} ({}) continues after its end", header.message, text(tag)));
    if (held != held_.end()) TRY(check_same(header, held->second));
    return false;
  }
  if (open_bytes_ + header.length > options_.open_bytes_max)
    return failed(
        fmt::format("more than {} bytes of incomplete messages", options_.open_bytes_max));
  if (!open_.contains(header.message) &&
      open_.size() + held_.size() + released_.runs() >= options_.open_max)
    return failed(fmt::format("more than {} incomplete messages", options_.open_max));
  return true;
}

Status Assembler::check_same(const FrameHeader& header, const Open& open) {
  const Tag tag{header.iteration, header.tag};
  if (tag == open.message.tag && header.total == open.total && header.after == open.after)
    return {};
  return failed(fmt::format("message {} is {} ({} bytes) and {} ({} bytes)", header.message,
                            text(open.message.tag), open.total, text(tag), header.total));
}

// What its other segments say.
Result<bool> Assembler::check_place(const Frame& frame, const Open& open) const {
  const FrameHeader& header = frame.header;
  TRY(check_same(header, open));
  const auto next = open.early.lower_bound(header.offset);
  const bool again = header.offset < open.message.payload.size() ||
                     (next != open.early.end() && next->first < header.offset + header.length) ||
                     (next != open.early.begin() &&
                      std::prev(next)->first + std::prev(next)->second.size() > header.offset);
  if (!again) return true;
  auto here = under(header, 0, open.message.payload);
  for (auto at : {next, next == open.early.begin() ? next : std::prev(next)}) {
    if (!here && at != open.early.end()) here = under(header, at->first, at->second);
  }
  if (options_.repeats && here && std::ranges::equal(*here, frame.payload)) return false;
  return failed(fmt::format("{} bytes at byte {} of {} came before{}", header.length, header.offset,
                            text(open.message.tag),
                            options_.repeats ? ", and were others or fewer" : ""));
}

// Its first segment, whichever that is.
Status Assembler::begin(const FrameHeader& header, Open& open) {
  open.message.tag = {header.iteration, header.tag};
  open.message.start = header.start;
  open.total = header.total;
  open.after = header.after;
  if (reserved_ + header.total > options_.message_max) return {};
  try {
    open.message.payload.reserve(header.total);  // pages come with the bytes
  } catch (const std::bad_alloc&) {
    return failed(fmt::format("there is no memory for the {} bytes of {}", header.total,
                              text(open.message.tag)));
  }
  open.reserved = true;
  reserved_ += header.total;
  return {};
}

void Assembler::put(const Frame& frame, Open& open) {
  Payload& payload = open.message.payload;
  open.message.departed = std::max(open.message.departed, frame.header.departed);
  if (frame.header.offset > payload.size()) {
    open.early.emplace(frame.header.offset, Payload(frame.payload.begin(), frame.payload.end()));
    return;
  }
  payload.insert(payload.end(), frame.payload.begin(), frame.payload.end());
  while (!open.early.empty() && open.early.begin()->first == payload.size()) {
    const Payload& next = open.early.begin()->second;
    payload.insert(payload.end(), next.begin(), next.end());
    open.early.erase(open.early.begin());
  }
}

Result<std::vector<Message>> Assembler::add(const Frame& frame, SimTime now) {
  const FrameHeader& header = frame.header;
  if (!TRY(check(header))) return std::vector<Message>();
  auto at = open_.find(header.message);
  if (at == open_.end()) {
    at = open_.try_emplace(header.message).first;
    TRY(begin(header, at->second));
    at->second.message.begun = now;
    came_ += kMessageCost;
  }
  if (!TRY(check_place(frame, at->second))) return std::vector<Message>();
  put(frame, at->second);
  open_bytes_ += header.length;
  came_ += header.length;
  std::vector<Message> out;
  if (at->second.message.payload.size() < at->second.total) return out;
  open_bytes_ -= at->second.total;
  if (at->second.reserved) reserved_ -= at->second.total;
  const uint64_t after = at->second.after;
  const auto held = held_.insert(open_.extract(at)).position;
  if (after == 0 || released_.contains(after)) {
    release(held, out);
  } else if (!follower_.emplace(after, header.message).second) {
    return failed(fmt::format("two messages want to follow message {}", after));
  }
  return out;
}

// This one, and all that waited for it in a row.
void Assembler::release(std::map<uint64_t, Open>::iterator held, std::vector<Message>& out) {
  while (true) {
    released_.add(held->first);
    out.push_back(std::move(held->second.message));
    const auto follower = follower_.extract(held->first);
    held_.erase(held);
    if (follower.empty()) return;
    held = held_.find(follower.mapped());
  }
}

}  // namespace tombolo::link
