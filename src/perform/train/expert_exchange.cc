#include "perform/train/expert_exchange.h"

#include <algorithm>
#include <cstring>
#include <map>
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

ExpertExchange::ExpertExchange(int64_t experts, int64_t members, int64_t own, int32_t strand)
    : each_(experts / members),
      members_(members),
      own_(own),
      first_tensor_(kExpertTensor + static_cast<uint64_t>(strand) * kExpertTensorsOfStrand) {
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
  tag_ = {.iteration = static_cast<uint64_t>(iteration), .tensor = first_tensor_};
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

std::vector<int64_t> ExpertExchange::counts_of(const Route& route) const {
  const auto each = static_cast<size_t>(each_);
  std::vector<int64_t> counts(each);
  for (size_t i = 0; i < route.taken.size(); ++i) counts[i % each] += route.taken[i];
  return counts;
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

// What of a slot's rows belongs to this member, expert by expert.
Rows ExpertExchange::blocks_of(const Route& route, int64_t member, bool by_member) const {
  const std::vector<int64_t>& counts = by_member ? route.given : route.taken;
  Rows out;
  int64_t row = 0;
  for (int64_t outer = 0; outer < (by_member ? members_ : each_); ++outer) {
    for (int64_t inner = 0; inner < (by_member ? each_ : members_); ++inner) {
      const int64_t its = by_member ? outer : inner, expert = by_member ? inner : outer;
      const int64_t count = counts[static_cast<size_t>(its * each_ + expert)];
      if (its == member && count > 0) out.push_back({row, count});
      row += count;
    }
  }
  return out;
}

// On the thread of the first shard, while the others wait.
void ExpertExchange::exchange(Way way) {
  for (Slot& slot : slots_) slot.route = std::move(slot.asked);
  const Status done = exchange_rows(way);
  if (!done) throw Interrupted(done.error());
  for (Slot& slot : slots_) slot.given = at::Tensor();
}

// Sends all messages before it receives any, so no rank waits to send.
Status ExpertExchange::exchange_rows(Way way) {
  ++tag_.tensor;
  for (int64_t member = 0; member < members_; ++member) {
    if (!is_here(member)) TRY(messenger_->send(rank_of(member), tag_, message_to(member, way)));
  }
  std::map<int64_t, link::Payload> messages;
  for (int64_t member = 0; member < members_; ++member) {
    if (is_here(member)) continue;
    messages[member] = std::move(TRY(messenger_->receive(rank_of(member), tag_)).payload);
  }
  if (way == Way::kOut) {
    for (int64_t member = 0; member < members_; ++member) {
      if (is_here(member)) {
        take_own_counts(member);
      } else {
        TRY(read_counts(member, messages.at(member)));
      }
    }
  }
  for (Slot& slot : slots_) {
    const int64_t rows = sum_of(way == Way::kOut ? slot.route.taken : slot.route.given);
    slot.taken = at::empty({rows, slot.given.size(1)}, slot.given.options());
  }
  for (int64_t member = 0; member < members_; ++member) {
    if (is_here(member)) {
      copy_own_rows(member, way);
    } else {
      TRY(read_rows(member, way, messages.at(member)));
    }
  }
  return {};
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
    for (const RowRange& rows : blocks_of(slot.route, member, way == Way::kOut))
      add(bytes_of(slot.given) + static_cast<size_t>(rows.first) * each,
          static_cast<size_t>(rows.count) * each);
  }
  return message;
}

void ExpertExchange::take_own_counts(int64_t member) {
  for (Slot& slot : slots_)
    std::copy_n(slot.route.given.begin() + member * each_, each_,
                slot.route.taken.begin() + member * each_);
}

void ExpertExchange::copy_own_rows(int64_t member, Way way) {
  for (Slot& slot : slots_) {
    const Rows from = blocks_of(slot.route, member, way == Way::kOut);
    const Rows to = blocks_of(slot.route, member, way != Way::kOut);
    for (size_t i = 0; i < from.size(); ++i)
      slot.taken.narrow(0, to[i].first, to[i].count)
          .copy_(slot.given.narrow(0, from[i].first, from[i].count));
  }
}

// A count is no more than the message has rows for.
Status ExpertExchange::read_counts(int64_t member, const link::Payload& message) {
  const size_t counts = slots_.size() * static_cast<size_t>(each_) * sizeof(int64_t);
  if (message.size() < counts) return no_such_message(message.size(), rank_of(member));
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
        return no_such_message(message.size(), rank_of(member));
      left -= static_cast<size_t>(rows) * each;
    }
  }
  return left == 0 ? Status{} : no_such_message(message.size(), rank_of(member));
}

Status ExpertExchange::read_rows(int64_t member, Way way, const link::Payload& message) {
  const bool out = way == Way::kOut;
  const size_t counts = out ? slots_.size() * static_cast<size_t>(each_) * sizeof(int64_t) : 0;
  size_t expected = counts;
  const auto for_each_slot = [&](const auto& call) {
    for (Slot& slot : slots_) {
      const size_t each = row_bytes(slot.given);
      for (const RowRange& rows : blocks_of(slot.route, member, !out))
        call(slot, static_cast<size_t>(rows.first) * each, static_cast<size_t>(rows.count) * each);
    }
  };
  for_each_slot([&](const Slot&, size_t, size_t bytes) { expected += bytes; });
  if (message.size() != expected) return no_such_message(message.size(), rank_of(member));
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
  out.counts = exchange.counts_of(out.route);
  return out;
}

at::Tensor from_experts(ExpertExchange& exchange, int32_t shard, const at::Tensor& parts,
                        const ExpertExchange::Route& route) {
  return FromExperts::apply(parts, reinterpret_cast<int64_t>(&exchange), int64_t{shard}, route);
}

}  // namespace tombolo::train
