#include "perform/train/expert_exchange.h"

#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "perform/train/add_time.h"
#include "perform/train/guarded.h"

namespace tombolo::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

int64_t sum_of(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

std::byte* bytes_of(const at::Tensor& rows) { return static_cast<std::byte*>(rows.data_ptr()); }
size_t row_bytes(const at::Tensor& rows) {
  return static_cast<size_t>(rows.size(1)) * rows.element_size();
}

tl::unexpected<Error> no_such_message(size_t bytes, int32_t rank) {
  return failed(fmt::format("rows for experts came in {} bytes from rank {}", bytes, rank),
                "start every rank with the same Plan");
}

}  // namespace

ExpertExchange::ExpertExchange(int64_t experts, int64_t members, int64_t own)
    : each_(experts / members), members_(members), own_(own) {
  CHECK(experts % members == 0 && own < members, "{} experts for member {} of {}", experts, own,
        members);
}

void ExpertExchange::serve(ShardCollectives& shards) {
  shards_ = &shards;
  slots_.resize(static_cast<size_t>(shards.degrees().context));
}

void ExpertExchange::join(const kernels::Replicas& group) {
  CHECK(std::ssize(group.ranks) == members_ && static_cast<int64_t>(group.own) == own_,
        "{} ranks share experts that {} have", group.ranks.size(), members_);
  ranks_ = group.ranks;
  messenger_ = group.messenger;
}

void ExpertExchange::begin_iteration(int64_t iteration) {
  tag_ = {.iteration = static_cast<uint64_t>(iteration), .tensor = kExpertTensor};
}

ExpertExchange::Slot& ExpertExchange::slot_of(int32_t shard) {
  return slots_[shards_ ? static_cast<size_t>(shards_->number_on(ShardAxis::kContext, shard)) : 0];
}

bool ExpertExchange::is_first_of_tensor_group(int32_t shard) const {
  return !shards_ || shards_->number_on(ShardAxis::kTensor, shard) == 0;
}

void ExpertExchange::meet() const {
  if (shards_) shards_->team().meet();
}

// What is given is this shard's until all meet, what is taken from when they meet again. Until they
// come to meet once more nothing is written that others still read.
at::Tensor ExpertExchange::send_out(int32_t shard, const at::Tensor& rows,
                                    const std::vector<int64_t>& counts, Route& route) {
  const at::NoGradGuard no_gradients;
  const AddTime time(shard == 0 ? &spent_ : nullptr);
  Slot& slot = slot_of(shard);
  if (is_first_of_tensor_group(shard)) {
    slot.given = rows.contiguous();
    slot.asked = {counts, std::vector<int64_t>(counts.size())};
  }
  meet();
  if (shard == 0) exchange(Way::kOut);
  meet();
  route = slot.route;
  return slot.taken;
}

at::Tensor ExpertExchange::send_again(int32_t shard, const at::Tensor& rows, const Route& route) {
  Route same;
  at::Tensor taken = send_out(shard, rows, route.given, same);
  TORCH_CHECK(same.taken == route.taken, "rows for experts went another way back");
  return taken;
}

at::Tensor ExpertExchange::send_back(int32_t shard, const at::Tensor& parts, const Route& route) {
  const at::NoGradGuard no_gradients;
  const at::Tensor rows = shards_ ? shards_->sum(ShardAxis::kTensor, shard, parts) : parts;
  const AddTime time(shard == 0 ? &spent_ : nullptr);
  Slot& slot = slot_of(shard);
  if (is_first_of_tensor_group(shard)) {
    slot.given = rows.contiguous();
    slot.asked = route;
  }
  meet();
  if (shard == 0) exchange(Way::kBack);
  meet();
  if (is_first_of_tensor_group(shard)) return std::exchange(slot.taken, at::Tensor());
  return at::zeros({1, 1}, parts.options()).expand({sum_of(route.given), parts.size(1)});
}

// call(first row, rows) for what of a slot's rows belongs to this member and each expert.
template <class Call>
void ExpertExchange::for_each_block(const Route& route, int64_t member, bool by_member,
                                    const Call& call) const {
  int64_t row = 0;
  for (int64_t outer = 0; outer < (by_member ? members_ : each_); ++outer) {
    for (int64_t inner = 0; inner < (by_member ? each_ : members_); ++inner) {
      const int64_t its = by_member ? outer : inner, expert = by_member ? inner : outer;
      const std::vector<int64_t>& counts = by_member ? route.given : route.taken;
      const int64_t count = counts[static_cast<size_t>(its * each_ + expert)];
      if (its == member && count > 0) call(row, count);
      row += count;
    }
  }
}

// On the thread of the first shard, while the others wait.
void ExpertExchange::exchange(Way way) {
  ++tag_.tensor;
  const auto done = [&]() -> Status {
    for (Slot& slot : slots_) slot.route = std::move(slot.asked);
    const std::vector<link::Payload> messages = TRY(exchange_messages(way));
    if (way == Way::kOut) {
      for (int64_t member = 0; member < members_; ++member)
        TRY(read_counts(member, messages[static_cast<size_t>(member)]));
    }
    for (Slot& slot : slots_) {
      const int64_t rows = sum_of(way == Way::kOut ? slot.route.taken : slot.route.given);
      slot.taken = at::empty({rows, slot.given.size(1)}, slot.given.options());
    }
    for (int64_t member = 0; member < members_; ++member)
      TRY(read_rows(member, way, messages[static_cast<size_t>(member)]));
    for (Slot& slot : slots_) slot.given = at::Tensor();
    return {};
  }();
  if (!done) throw Interrupted(done.error());
}

// Nobody waits to send.
Result<std::vector<link::Payload>> ExpertExchange::exchange_messages(Way way) {
  std::vector<link::Payload> messages;
  const auto is_here = [&](size_t member) {
    return !messenger_ || static_cast<int64_t>(member) == own_;
  };
  for (size_t member = 0; member < static_cast<size_t>(members_); ++member) {
    messages.push_back(message_to(static_cast<int64_t>(member), way));
    if (is_here(member)) continue;
    TRY(messenger_->send(ranks_[member], tag_, std::exchange(messages.back(), {})));
  }
  for (size_t member = 0; member < messages.size(); ++member) {
    if (!is_here(member))
      messages[member] = std::move(TRY(messenger_->receive(ranks_[member], tag_)).payload);
  }
  return messages;
}

link::Payload ExpertExchange::message_to(int64_t member, Way way) const {
  link::Payload message;
  const auto add = [&](const std::byte* bytes, size_t size) {
    message.insert(message.end(), bytes, bytes + size);
  };
  if (way == Way::kOut) {
    for (const Slot& slot : slots_) {
      const auto counts = std::as_bytes(
          std::span(slot.route.given)
              .subspan(static_cast<size_t>(member * each_), static_cast<size_t>(each_)));
      add(counts.data(), counts.size());
    }
  }
  for (const Slot& slot : slots_) {
    const size_t each = row_bytes(slot.given);
    for_each_block(slot.route, member, way == Way::kOut, [&](int64_t row, int64_t rows) {
      add(bytes_of(slot.given) + static_cast<size_t>(row) * each, static_cast<size_t>(rows) * each);
    });
  }
  return message;
}

// A count is no more than the message has rows for.
Status ExpertExchange::read_counts(int64_t member, const link::Payload& message) {
  const size_t counts = slots_.size() * static_cast<size_t>(each_) * sizeof(int64_t);
  const int32_t rank = ranks_.empty() ? 0 : ranks_[static_cast<size_t>(member)];
  if (message.size() < counts) return no_such_message(message.size(), rank);
  const std::byte* at = message.data();
  size_t left = message.size() - counts;
  for (Slot& slot : slots_) {
    int64_t* taken = slot.route.taken.data() + member * each_;
    std::memcpy(taken, at, static_cast<size_t>(each_) * sizeof(int64_t));
    at += static_cast<size_t>(each_) * sizeof(int64_t);
    const size_t each = row_bytes(slot.given);
    for (int64_t expert = 0; expert < each_; ++expert) {
      const int64_t rows = taken[expert];
      if (rows < 0 || static_cast<size_t>(rows) > left / each)
        return no_such_message(message.size(), rank);
      left -= static_cast<size_t>(rows) * each;
    }
  }
  return left == 0 ? Status{} : no_such_message(message.size(), rank);
}

Status ExpertExchange::read_rows(int64_t member, Way way, const link::Payload& message) {
  const bool out = way == Way::kOut;
  const size_t counts = out ? slots_.size() * static_cast<size_t>(each_) * sizeof(int64_t) : 0;
  const int32_t rank = ranks_.empty() ? 0 : ranks_[static_cast<size_t>(member)];
  size_t expected = counts;
  const auto for_each_slot = [&](const auto& call) {
    for (Slot& slot : slots_) {
      const size_t each = row_bytes(slot.given);
      for_each_block(slot.route, member, !out, [&](int64_t row, int64_t rows) {
        call(slot, static_cast<size_t>(row) * each, static_cast<size_t>(rows) * each);
      });
    }
  };
  for_each_slot([&](const Slot&, size_t, size_t bytes) { expected += bytes; });
  if (message.size() != expected) return no_such_message(message.size(), rank);
  const std::byte* at = message.data() + counts;
  for_each_slot([&](const Slot& slot, size_t first, size_t bytes) {
    std::memcpy(bytes_of(slot.taken) + first, at, bytes);
    at += bytes;
  });
  return {};
}

// --- with gradients ------------------------------------------------------------------------------

namespace {

ExpertExchange& exchange_at(AutogradContext* context) {
  return *reinterpret_cast<ExpertExchange*>(context->saved_data["exchange"].toInt());
}

void save(AutogradContext* context, int64_t exchange, int64_t shard,
          const ExpertExchange::Route& route) {
  context->saved_data["exchange"] = exchange;
  context->saved_data["shard"] = shard;
  context->saved_data["given"] = route.given;
  context->saved_data["taken"] = route.taken;
}

ExpertExchange::Route saved_route(AutogradContext* context) {
  return {context->saved_data["given"].toIntVector(), context->saved_data["taken"].toIntVector()};
}

int32_t saved_shard(AutogradContext* context) {
  return static_cast<int32_t>(context->saved_data["shard"].toInt());
}

struct ToExperts : torch::autograd::Function<ToExperts> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& by_expert, int64_t exchange,
                            int64_t shard, const std::vector<int64_t>& counts,
                            ExpertExchange::Route* route) {
    at::Tensor rows = reinterpret_cast<ExpertExchange*>(exchange)->send_out(
        static_cast<int32_t>(shard), by_expert, counts, *route);
    save(context, exchange, shard, *route);
    return rows.detach();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {
        exchange_at(context).send_back(saved_shard(context), gradients[0], saved_route(context)),
        at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct FromExperts : torch::autograd::Function<FromExperts> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& parts, int64_t exchange,
                            int64_t shard, const ExpertExchange::Route& route) {
    save(context, exchange, shard, route);
    return reinterpret_cast<ExpertExchange*>(exchange)->send_back(static_cast<int32_t>(shard),
                                                                  parts, route);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {
        exchange_at(context).send_again(saved_shard(context), gradients[0], saved_route(context)),
        at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

ExpertRows to_experts(ExpertExchange& exchange, int32_t shard, const at::Tensor& by_expert,
                      const std::vector<int64_t>& counts) {
  ExpertRows out;
  out.rows = ToExperts::apply(by_expert, reinterpret_cast<int64_t>(&exchange), int64_t{shard},
                              counts, &out.route);
  const auto each = static_cast<size_t>(exchange.own_experts().count);
  out.counts.resize(each);
  for (size_t i = 0; i < out.route.taken.size(); ++i) out.counts[i % each] += out.route.taken[i];
  return out;
}

at::Tensor from_experts(ExpertExchange& exchange, int32_t shard, const at::Tensor& parts,
                        const ExpertExchange::Route& route) {
  return FromExperts::apply(parts, reinterpret_cast<int64_t>(&exchange), int64_t{shard}, route);
}

}  // namespace tombolo::train
