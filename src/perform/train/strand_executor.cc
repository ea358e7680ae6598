#include "perform/train/strand_executor.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"

namespace tombolo::train {
namespace {

// The first operator that waits for ever, where streams keep to the order.
std::optional<size_t> first_stuck(std::span<const StrandOperator> operators,
                                  const StrandOrder& order) {
  std::vector<std::vector<size_t>> queues(kStreams);
  for (const size_t number : order.operators)
    queues[order.on_one_thread ? 0 : static_cast<size_t>(operators[number].stream)].push_back(
        number);
  std::vector<bool> ended(operators.size());
  const auto has_ended = [&](size_t number) { return bool{ended[number]}; };
  const auto ready = [&](size_t number) {
    return std::ranges::all_of(operators[number].after, has_ended) &&
           (order.after.empty() || std::ranges::all_of(order.after[number], has_ended));
  };
  std::vector<size_t> next(kStreams);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stream = 0; stream < kStreams; ++stream) {
      while (next[stream] < queues[stream].size() && ready(queues[stream][next[stream]])) {
        ended[queues[stream][next[stream]++]] = true;
        moved = true;
      }
    }
  }
  for (size_t stream = 0; stream < kStreams; ++stream) {
    if (next[stream] < queues[stream].size()) return queues[stream][next[stream]];
  }
  return {};
}

bool is_each_once(const std::vector<size_t>& numbers, size_t count) {
  std::vector<bool> seen(count);
  for (const size_t number : numbers) {
    if (number >= count || seen[number]) return false;
    seen[number] = true;
  }
  return numbers.size() == count;
}

// Of numbers sorted by strand, of which there are two.
std::vector<size_t> by_turns(std::span<const StrandOperator> operators,
                             const std::vector<size_t>& sorted) {
  const auto is_first = [&](size_t number) {
    return operators[number].strand == operators[sorted.front()].strand;
  };
  const auto middle = std::ranges::partition_point(sorted, is_first);
  std::vector<size_t>::const_iterator next[] = {sorted.begin(), middle};
  const std::vector<size_t>::const_iterator end[] = {middle, sorted.end()};
  std::vector<size_t> out;
  for (size_t strand = 0; out.size() < sorted.size(); strand = 1 - strand) {
    for (bool sent = false; next[strand] != end[strand] && !sent; ++next[strand]) {
      out.push_back(*next[strand]);
      sent = operators[*next[strand]].stream != Stream::kCompute;
    }
  }
  return out;
}

// Operators of all strands in turn; within one, what is not asynchronous comes one after the other.
StrandOrder in_turn(std::span<const StrandOperator> operators, const std::vector<size_t>& sorted) {
  std::map<int32_t, size_t> count, last;
  std::vector<std::pair<size_t, size_t>> ranked;  // how many of its strand come before it, number
  StrandOrder order{.after = std::vector<std::vector<size_t>>(operators.size())};
  for (const size_t number : sorted) {
    const StrandOperator& op = operators[number];
    ranked.emplace_back(count[op.strand]++, number);
    if (op.async) continue;
    if (const auto before = last.find(op.strand); before != last.end())
      order.after[number] = {before->second};
    last[op.strand] = number;
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [before, number] : ranked) order.operators.push_back(number);
  return order;
}

}  // namespace

StrandOrder order_of(std::span<const StrandOperator> operators, Way way) {
  StrandOrder order{.on_one_thread = way == Way::kOneAfterOther};
  for (size_t i = 0; i < operators.size(); ++i) order.operators.push_back(i);
  std::stable_sort(order.operators.begin(), order.operators.end(),
                   [&](size_t a, size_t b) { return operators[a].strand < operators[b].strand; });
  if (order.on_one_thread || operators.empty()) return order;
  if (way == Way::kInTurn) return in_turn(operators, order.operators);
  if (way == Way::kByTurns) return {.operators = by_turns(operators, order.operators)};
  // What is not asynchronous comes one after the other, and a strand begins when the one before has ended.
  order.after.resize(operators.size());
  std::optional<size_t> last;
  std::vector<size_t> before;
  int32_t strand = 0;
  std::vector<size_t> of_strand;
  for (const size_t number : order.operators) {
    if (operators[number].strand != strand) {
      before = std::exchange(of_strand, {});
      last.reset();
      strand = operators[number].strand;
    }
    of_strand.push_back(number);
    order.after[number] = before;
    if (operators[number].async) continue;
    if (last) order.after[number].push_back(*last);
    last = number;
  }
  return order;
}

Result<StrandOrder> order_of(std::span<const StrandOperator> operators,
                             std::span<const std::string> names) {
  std::map<std::string, size_t, std::less<>> numbers;
  for (size_t i = 0; i < operators.size(); ++i) numbers[operators[i].name] = i;
  StrandOrder order;
  for (const std::string& name : names) {
    const auto found = numbers.find(name);
    if (found == numbers.end())
      return unusable(fmt::format("\"{}\": no operator of these strands, or it comes twice", name),
                      "each operator once");
    order.operators.push_back(found->second);
    numbers.erase(found);
  }
  if (!numbers.empty())
    return unusable(fmt::format("the order lacks \"{}\"", numbers.begin()->first),
                    "all operators of a layer, or no order: then both passes take turns");
  if (const auto stuck = first_stuck(operators, order))
    return unusable(fmt::format("\"{}\" would wait for ever: what it waits for comes later on its "
                                "own stream, or waits for something behind it",
                                operators[*stuck].name),
                    "an order in which each operator comes after those that it needs");
  return order;
}

StrandExecutor::StrandExecutor(std::function<void()> on_failure)
    : on_failure_(std::move(on_failure)) {
  for (const Stream link : {Stream::kLocal, Stream::kCross})
    threads_.emplace_back([this, link] { serve(static_cast<size_t>(link)); });
}

StrandExecutor::~StrandExecutor() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& each : threads_) each.join();
}

void StrandExecutor::serve(size_t stream) {
  for (uint64_t served = 0;; ++served) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || run_ > served; });
      if (closing_) return;
    }
    perform(static_cast<Stream>(stream));
    const std::lock_guard lock(mutex_);
    --serving_;
    changed_.notify_all();
  }
}

bool StrandExecutor::may_start(size_t number) const {
  const auto has_ended = [&](size_t other) { return bool{ended_[other]}; };
  return std::ranges::all_of(operators_[number].after, has_ended) &&
         (order_->after.empty() || std::ranges::all_of(order_->after[number], has_ended));
}

void StrandExecutor::perform(Stream stream) {
  for (const size_t number : order_->operators) {
    if (order_->on_one_thread ? stream != Stream::kCompute : operators_[number].stream != stream)
      continue;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return thrown_ || may_start(number); });
      if (thrown_) return;
    }
    perform_one(number);
  }
}

void StrandExecutor::perform_one(size_t number) {
  const auto now = [&] { return std::chrono::steady_clock::now() - began_; };
  OperatorTime time{.start = now()};
  std::exception_ptr thrown;
  try {
    operators_[number].work();
  } catch (...) {
    thrown = std::current_exception();
  }
  time.end = now();
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    times_[number] = time;
    ended_[number] = !thrown;
    first = thrown && !thrown_;
    if (first) thrown_ = thrown;
  }
  changed_.notify_all();
  if (first && on_failure_) on_failure_();
}

std::vector<OperatorTime> StrandExecutor::run(std::span<const StrandOperator> operators,
                                              const StrandOrder& order) {
  CHECK(is_each_once(order.operators, operators.size()), "an order of {} operators for {}",
        order.operators.size(), operators.size());
  const auto stuck = first_stuck(operators, order);
  CHECK(!stuck, "{} would wait for ever", operators[*stuck].name);
  {
    const std::lock_guard lock(mutex_);
    operators_ = operators;
    order_ = &order;
    times_.assign(operators.size(), {});
    ended_.assign(operators.size(), false);
    thrown_ = nullptr;
    serving_ = threads_.size();
    ++run_;
    began_ = std::chrono::steady_clock::now();
  }
  changed_.notify_all();
  perform(Stream::kCompute);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return serving_ == 0; });
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  return std::move(times_);
}

}  // namespace tombolo::train
