// The graph of one rank: actions become computations, collectives and messages.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "predict/workload/workload.h"

namespace tombolo::workload {

using action::Action;
using action::ActionKind;
using graph::CollectiveType;
using graph::Node;
using graph::NodeType;

class WorkloadWriter {
 public:
  WorkloadWriter(const Workload& workload, int32_t rank, bool members)
      : w_(workload), members_(members), sequence_(workload.parallelism_.sequence_parallel) {
    graph_.rank = rank;
    position_ = static_cast<int32_t>(w_.numbering_.stage_of(rank));
    done_.assign(w_.chunks_.size(), 0);
    summed_.resize(w_.chunks_.size());
  }

  graph::Graph write() && {
    const std::vector<Action>& order = w_.schedule_.ranks[static_cast<size_t>(position_)];
    const auto last_send = std::find_if(order.rbegin(), order.rend(),
                                        [](const Action& a) { return action::is_send(a.kind); });
    sends_ = last_send != order.rend();
    for (const Action& action : order) {
      perform(action);
      if (sends_ && &action == &*last_send) send_the_last();
    }
    return std::move(graph_);
  }

 private:
  using Ids = std::vector<int64_t>;  // -1: none

  const Workload::Chunk& chunk(const Action& action) const {
    return w_.chunks_[static_cast<size_t>(action.stage)];
  }

  void perform(const Action& action) {
    using enum ActionKind;
    switch (action.kind) {
      case kForward:
        begin(action, {{kReceiveActivation, action.stage, action.microbatch}});
        gather_what_came({kReceiveActivation, action.stage, action.microbatch});
        forward(action);
        break;
      case kBackward:
      case kBackwardInput:
        begin(action, {{kReceiveGradient, action.stage, action.microbatch},
                       {kForward, action.stage, action.microbatch}});
        gather_what_came({kReceiveGradient, action.stage, action.microbatch});
        backward(action);
        break;
      case kBackwardWeight:
        begin(action, {{kBackwardInput, action.stage, action.microbatch}});
        weights(action);
        break;
      case kUpdate:
        update(action);
        break;
      default:
        CHECK(action::is_communication(action.kind), "{} is not of a workload",
              action::to_text(action));
        message(action);
    }
    if (!action::is_communication(action.kind)) ends_[action] = chain_;
  }

  // What the first computation of an action waits for.
  void begin(const Action& action, const std::vector<Action>& inputs) {
    text_ = action::to_text(action);
    waits_.clear();
    for (const Action& input : inputs) {
      if (const auto end = ends_.find(input); end != ends_.end()) waits_.push_back(end->second);
    }
  }

  // Without sequence parallelism activations are whole on every tensor rank, and each sends its part.
  void gather_what_came(const Action& receive) {
    if (sequence_ || !ends_.contains(receive)) return;
    in_row(Workload::kTensor, CollectiveType::kAllGather, w_.whole_boundary_, text_ + " boundary");
  }

  void forward(const Action& action) {
    for (const Part& part : chunk(action).parts) {
      parameters(part);
      for (const LayerBlock& b : part.blocks) work(b.forward, "", b);
    }
  }

  void backward(const Action& action) {
    const bool split = action.kind == ActionKind::kBackwardInput;
    const bool last = !split && is_last(action);
    const std::vector<Part>& parts = chunk(action).parts;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      parameters(*part);
      for (const LayerBlock& b : part->blocks) {
        if (b.again.seconds > 0) work(b.again, " again", b);
      }
      for (auto b = part->blocks.rbegin(); b != part->blocks.rend(); ++b) {
        Pass pass = b->backward_input;
        if (!split) pass += b->backward_weight;
        work(pass, "", *b);
      }
      if (!split) gradients(action, *part, last);
    }
  }

  void weights(const Action& action) {
    const bool last = is_last(action);
    const std::vector<Part>& parts = chunk(action).parts;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      for (auto b = part->blocks.rbegin(); b != part->blocks.rend(); ++b) {
        work(b->backward_weight, "", *b);
      }
      gradients(action, *part, last);
    }
  }

  bool is_last(const Action& action) {
    return ++done_[static_cast<size_t>(action.stage)] == w_.shape_.microbatches;
  }
  // Whether gradients are summed behind the microbatch that is_last counted.
  bool ends_round(const Action& action) const {
    const layout::Parallelism& p = w_.parallelism_;
    if (p.sums_each_microbatch()) return true;
    return p.gradient_sums(w_.shape_.microbatches) > 1 &&
           done_[static_cast<size_t>(action.stage)] % p.pipeline == 0;
  }

  // Collectives, computation, collectives. Without sequence parallelism activations are whole: what
  // would be gathered before is there, and what would be scattered after is summed for all.
  void work(const Pass& pass, const char* what, const LayerBlock& block) {
    const std::string name = text_ + what + " " + block.name;
    in_row(Workload::kExpert, CollectiveType::kAllToAll, pass.tokens, name + " dispatch");
    if (sequence_) in_row(Workload::kTensor, CollectiveType::kAllGather, pass.gather, name);
    in_row(Workload::kContext, CollectiveType::kAllGather, pass.context_gather, name);
    Node node;
    node.name = name;
    node.duration = round_to_ns(Seconds{pass.seconds});
    node.num_ops = std::llround(pass.flops);
    node.tensor_size = std::llround(block.touched);
    if (node.duration.ns > 0 || node.num_ops > 0) chain_ = add(std::move(node), waiting());
    in_row(Workload::kContext, CollectiveType::kReduceScatter, pass.context_scatter, name);
    if (sequence_) {
      in_row(Workload::kTensor, CollectiveType::kReduceScatter, pass.scatter, name);
    } else {
      in_row(Workload::kTensor, CollectiveType::kAllReduce, pass.scatter, name);
    }
    in_row(Workload::kExpert, CollectiveType::kAllToAll, pass.tokens, name + " combine");
  }

  // ZeRO 3: the parameters of a part, asked for when the part before it begins.
  void parameters(const Part& part) {
    if (w_.parallelism_.zero != 3) return;
    const int64_t when = before_;
    before_ = chain_;
    for (const auto& [kind, held] : held_of(part)) {
      const std::string name = text_ + " parameters of " + part.name;
      const double bytes = held * w_.weight_bytes_;
      const int64_t loaded = remote(NodeType::kMemoryLoad, kind, bytes, name, when);
      const int64_t before = loaded == -1 ? when : loaded;
      const int64_t gathered = beside(kind, CollectiveType::kAllGather, bytes, name, {before});
      waits_.push_back(gathered == -1 ? loaded : gathered);
    }
  }

  // Moves a rank's shard of `bytes`, after another node and the last that went the same way; -1
  // where nothing is remote.
  int64_t remote(NodeType type, Workload::Kind kind, double bytes, const std::string& name,
                 int64_t after) {
    if (!w_.remote_parameters_ || bytes == 0) return -1;
    Node node;
    node.name = name + " " + std::string(to_name(type));
    node.type = type;
    node.tensor_size = std::llround(bytes / static_cast<double>(w_.groups_[kind].size()));
    int64_t& last = moved_[type == NodeType::kMemoryLoad ? 0 : 1];
    return last = add(std::move(node), {after, last});
  }

  // Sums the gradients of a part after its last backward pass, or after each of them or of a round. What would
  // come before the rank's last message waits for it: where a rank does one communication at a
  // time, as in ASTRA-sim, the stages before this one would wait for the sums, one after another.
  void gradients(const Action& action, const Part& part, bool last) {
    if (!last && !ends_round(action)) return;
    if (last && sends_) {
      put_off_.push_back({action, text_, &part});
    } else {
      sum_gradients(action, part);
    }
  }

  void send_the_last() {
    sends_ = false;
    const std::string text = std::move(text_);
    for (const PutOff& put_off : put_off_) {
      text_ = put_off.text;
      sum_gradients(put_off.action, *put_off.part);
    }
    text_ = text;
  }

  void sum_gradients(const Action& action, const Part& part) {
    const int64_t zero = w_.parallelism_.zero;
    const auto type = zero == 0 ? CollectiveType::kAllReduce : CollectiveType::kReduceScatter;
    for (const auto& [kind, held] : held_of(part)) {
      const std::string name = text_ + " gradients of " + part.name;
      const double bytes = held * w_.gradient_bytes_;
      const int64_t sum = beside(kind, type, bytes, name, {chain_});
      const int64_t stored =
          remote(NodeType::kMemoryStore, kind, bytes, name, sum == -1 ? chain_ : sum);
      const int64_t id = stored == -1 ? sum : stored;
      summed_[static_cast<size_t>(action.stage)].push_back(id);
    }
  }

  // The gradients of an embedding that the last stage holds a copy of: after all other sums, as in
  // Megatron-LM. Earlier, a network that serves one collective at a time would wait at one end for
  // a rank whose work waits for the other.
  void tied() {
    if (position_ != w_.shape_.position_of(0) &&
        position_ != w_.shape_.position_of(w_.shape_.stages - 1)) {
      return;
    }
    const int64_t id = beside(
        Workload::kTied, CollectiveType::kAllReduce, w_.tied_, "gradients of the tied embedding",
        {chain_, streams_[Workload::kGradients], streams_[Workload::kExpertGradients]});
    for (Ids& sums : summed_) sums.push_back(id);
  }

  void update(const Action& action) {
    if (!updated_) tied();
    text_ = action::to_text(action);
    waits_ = summed_[static_cast<size_t>(action.stage)];
    Node node;
    node.name = text_;
    node.duration = round_to_ns(Seconds{chunk(action).update + (updated_ ? 0 : w_.overhead_)});
    updated_ = true;
    chain_ = add(std::move(node), waiting());
    if (w_.parallelism_.zero != 1 && w_.parallelism_.zero != 2) return;
    for (const Part& part : chunk(action).parts) {
      for (const auto& [kind, held] : held_of(part)) {
        beside(kind, CollectiveType::kAllGather, held * w_.weight_bytes_,
               text_ + " parameters of " + part.name, {chain_});
      }
    }
  }

  void message(const Action& action) {
    using enum ActionKind;
    const bool next = action.kind == kSendActivation || action.kind == kReceiveGradient;
    const int32_t stage = action.stage + (next ? 1 : -1);
    const auto offset = [&](int32_t position) {
      return w_.stage_offsets_[static_cast<size_t>(position)];
    };
    const int64_t boundary = std::min(stage, action.stage);
    Node node;
    node.name = action::to_text(action);
    node.type = action::is_send(action.kind) ? NodeType::kSend : NodeType::kReceive;
    node.comm_size = std::llround(w_.boundary_);
    node.comm_peer = graph_.rank + offset(w_.shape_.position_of(stage)) - offset(position_);
    node.comm_tag = boundary * 2 * w_.shape_.microbatches + schedule::message_tag(action);
    Ids dependencies;
    if (action::is_send(action.kind)) {
      const Action made{action.kind == kSendActivation ? kForward : kBackward, action.stage,
                        action.microbatch};
      auto end = ends_.find(made);
      if (end == ends_.end()) end = ends_.find({kBackwardInput, made.stage, made.microbatch});
      CHECK(end != ends_.end(), "{} before it is computed", node.name);
      dependencies.push_back(end->second);
    }
    ends_[action] = add(std::move(node), std::move(dependencies));
  }

  std::array<std::pair<Workload::Kind, double>, 2> held_of(const Part& part) const {
    return {{{Workload::kGradients, part.dense}, {Workload::kExpertGradients, part.experts}}};
  }

  Ids waiting() {
    Ids out = std::move(waits_);
    waits_.clear();
    out.push_back(chain_);
    return out;
  }

  // A collective that the computation after it waits for.
  void in_row(Workload::Kind kind, CollectiveType type, double bytes, const std::string& name) {
    if (!exchanges(kind, bytes)) return;
    chain_ = collective(kind, type, bytes, name, waiting());
  }

  // A collective that overlaps computation, after the earlier ones of its group.
  int64_t beside(Workload::Kind kind, CollectiveType type, double bytes, const std::string& name,
                 Ids dependencies) {
    if (!exchanges(kind, bytes)) return -1;
    int64_t& stream = streams_[kind];
    dependencies.push_back(stream);
    return stream = collective(kind, type, bytes, name, std::move(dependencies));
  }

  bool exchanges(Workload::Kind kind, double bytes) const {
    return bytes > 0 && w_.groups_[kind].size() > 1;
  }

  int64_t collective(Workload::Kind kind, CollectiveType type, double bytes,
                     const std::string& name, Ids dependencies) {
    const Workload::Groups& groups = w_.groups_[kind];
    const bool gathers = type == CollectiveType::kAllGather;
    const auto group = static_cast<size_t>(groups.of_rank[static_cast<size_t>(graph_.rank)]);
    Node node;
    node.name = name + " " + std::string(to_name(type));
    node.type = NodeType::kCollective;
    node.collective = type;
    node.comm_size = std::llround(gathers ? bytes / static_cast<double>(groups.size()) : bytes);
    node.comm_tag = tags_[kind]++ * Workload::kKinds + kind;
    if (groups.size() < static_cast<size_t>(w_.ranks())) {
      node.details.edit().pg_name =
          fmt::format("{}", groups.first_name + static_cast<int64_t>(group));
    }
    if (members_) node.comm_group = groups.lists.members(group);
    return add(std::move(node), std::move(dependencies));
  }

  int64_t add(Node node, Ids dependencies) {
    std::erase(dependencies, -1);
    std::sort(dependencies.begin(), dependencies.end());
    dependencies.erase(std::unique(dependencies.begin(), dependencies.end()), dependencies.end());
    node.id = static_cast<int64_t>(graph_.nodes.size());
    node.data_deps = std::move(dependencies);
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().id;
  }

  const Workload& w_;
  const bool members_;
  const bool sequence_;
  graph::Graph graph_;
  int32_t position_ = 0;
  std::string text_;  // of the action at work
  std::map<Action, int64_t> ends_;
  int64_t chain_ = -1;         // the last of all that goes in a row
  int64_t before_ = -1;        // its end before the part before this one
  Ids waits_;                  // more that the next one in the row waits for
  std::vector<int32_t> done_;  // per stage: backward passes
  std::vector<Ids> summed_;    // per stage: gradient reductions
  std::array<int64_t, Workload::kKinds> streams_{-1, -1, -1, -1, -1, -1};
  std::array<int64_t, Workload::kKinds> tags_{};
  struct PutOff {
    Action action;
    std::string text;
    const Part* part = nullptr;
  };
  std::vector<PutOff> put_off_;           // gradient reductions
  bool sends_ = false;                    // a message is still to come
  std::array<int64_t, 2> moved_{-1, -1};  // the last load from remote memory, the last store
  bool updated_ = false;
};

graph::Graph Workload::graph(int32_t rank, bool members) const {
  CHECK(rank >= 0 && rank < ranks(), "rank {} of {}", rank, ranks());
  return WorkloadWriter(*this, rank, members).write();
}

}  // namespace tombolo::workload
