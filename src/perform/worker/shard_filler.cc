#include "perform/worker/shard_filler.h"

#include <utility>

namespace tombolo::worker {

using generate::ShardMessage;
using generate::ShardWord;

bool ShardFiller::fill(SimTime until) {
  hear_sender();
  return layers_.work_once(until, to_next());
}

Status ShardFiller::take(const link::Payload& bytes) {
  ShardMessage message = TRY(generate::decode_shard_message(bytes));
  if (message.word == ShardWord::kDecode) return call_decode_worker(std::move(message));
  if (message.word == ShardWord::kDropAll) sender_.reset();
  TRY(layers_.take(std::move(message), to_next()));
  for (generate::HandedOver& prompt : layers_.take_handed_over()) {
    if (!sender_) return failed("a prompt is handed over, and its receiver is not known");
    sender_->give(std::move(prompt));
  }
  return {};
}

Status ShardFiller::call_decode_worker(ShardMessage message) {
  const auto named = TRY(generate::parse_front(message.text));
  if (!named.decode) return failed("the place of a decode worker that names none");
  decode_ = std::move(message);
  sender_ = std::make_unique<handover::CacheSender>(*named.decode, host_, ring_.place());
  return {};
}

// If it is lost the first rank tells the front, which knows what was under way.
void ShardFiller::hear_sender() {
  if (!sender_) return;
  const handover::CacheSender::News news = sender_->news();
  for (const int64_t number : news.left) layers_.left(number, to_next());
  if (news.linked) ring_.say(decode_);
  if (news.failed)
    ring_.say({.word = ShardWord::kFailed, .prompt = decode_.prompt, .text = *news.failed});
}

}  // namespace tombolo::worker
