#include "spec/chakra/pytorch.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/json.h"
#include "spec/chakra/byte_source.h"
#include "spec/chakra/kineto.h"

namespace tombolo::chakra {
namespace {

constexpr size_t kUnzippedMax = size_t{2} << 30;
constexpr int64_t kPause = 1'000'000;                   // ns
constexpr int64_t kLastId = int64_t{1} << 62;           // room for kernels behind it
constexpr int64_t kLeast = -4'000'000'000'000'000'000;  // ns, where hostile sums stop

// --- The execution trace -------------------------------------------------------------------------

struct Operator {
  int64_t id = 0;
  std::string name;
  int64_t parent = -1;
  int64_t thread = 0;
  int64_t record = -1;
  const Value* value = nullptr;
  const KinetoEvent* event = nullptr;  // null: not seen by Kineto
  int64_t own_ns = 0;
  int64_t waits_until = INT64_MIN;  // the end of its last call that synchronized
};

int64_t integer(const Value* value, int64_t otherwise) {
  const auto* whole = value ? value->get<int64_t>() : nullptr;
  return whole ? *whole : otherwise;
}
std::string text(const Value* value) {
  const auto* text = value ? value->get<std::string>() : nullptr;
  return text ? *text : "";
}

// A property of a node: one of its attrs, or in schemas before 1.0.2 a member.
const Value* property(const Value& node, std::string_view name) {
  if (const Value* member = node.find(name)) return member;
  const Value* attrs = node.find("attrs");
  const auto* list = attrs ? attrs->get<Value::Array>() : nullptr;
  if (!list) return nullptr;
  for (const Value& attr : *list) {
    if (text(attr.find("name")) == name) return attr.find("value");
  }
  return nullptr;
}

Result<std::vector<Operator>> operators(const Value& trace, const std::string& name) {
  const Value* nodes = trace.find("nodes");
  const auto* list = nodes ? nodes->get<Value::Array>() : nullptr;
  if (!list || text(trace.find("schema")).empty()) {
    return unusable(
        fmt::format("{}: is no execution trace of PyTorch: wanted schema and nodes", name));
  }
  std::vector<Operator> out;
  for (const Value& node : *list) {
    Operator found;
    found.id = integer(node.find("id"), -1);
    found.name = text(node.find("name"));
    if (found.id < 0 || found.id > kLastId) {
      return unusable(fmt::format("{}: nodes[{}] (\"{}\") has no id", name, &node - list->data(),
                                  brief_name(found.name)));
    }
    const Value* parent = node.find("ctrl_deps");
    found.parent = integer(parent ? parent : node.find("parent"), -1);
    found.thread = integer(property(node, "tid"), 0);
    found.record = integer(property(node, "rf_id"), -1);
    found.value = &node;
    out.push_back(std::move(found));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.id < b.id; });
  for (size_t i = 1; i < out.size(); ++i) {
    if (out[i].id == out[i - 1].id) {
      return unusable(fmt::format("{}: two nodes have the id {}", name, out[i].id));
    }
  }
  return out;
}

// --- Joining -------------------------------------------------------------------------------------

class Joiner {
 public:
  Joiner(std::vector<Operator> operators, const std::vector<KinetoEvent>& events)
      : operators_(std::move(operators)), events_(events) {
    for (size_t i = 0; i < operators_.size(); ++i) place_of_[operators_[i].id] = i;
  }

  // Whether Kineto's file says ids of recorded functions at all.
  bool has_records() const {
    return std::any_of(events_.begin(), events_.end(), [](const KinetoEvent& event) {
      return event.kind == KinetoKind::kOperator && event.record > 0;
    });
  }

  // How many operators Kineto saw. By external ids, which count other things in newer files, names
  // have to be the same.
  size_t join_records() {
    const bool by_external = !has_records();
    std::unordered_map<int64_t, const KinetoEvent*> by_record;
    for (const KinetoEvent& event : events_) {
      const int64_t id = by_external ? event.external : event.record;
      if (event.kind == KinetoKind::kOperator && id > 0) by_record.emplace(id, &event);
    }
    size_t joined = 0;
    for (Operator& op : operators_) {
      const auto found = by_record.find(op.record);
      if (op.record <= 0 || found == by_record.end()) continue;
      if (by_external && found->second->name != op.name) continue;
      op.event = found->second;
      external_.emplace(op.event->external, op.event);
      operator_of_.emplace(op.event, &op - operators_.data());
      ++joined;
    }
    return joined;
  }

  // Events of one thread nest like calls: each takes its time from the one around it.
  void own_times() {
    std::map<int64_t, std::vector<const KinetoEvent*>> open;  // by thread
    for (const KinetoEvent& event : events_) {
      if (event.kind == KinetoKind::kDevice) continue;
      std::vector<const KinetoEvent*>& calls = open[event.thread];
      while (!calls.empty() &&
             (calls.back()->end < event.end || calls.back()->end <= event.start)) {
        calls.pop_back();
      }
      const KinetoEvent* around = calls.empty() ? nullptr : calls.back();
      if (event.kind == KinetoKind::kOperator) {
        // The time of one that the execution trace does not know is that of its caller.
        if (!operator_of_.contains(&event)) continue;
        const int64_t length = (event.end - event.start).ns;
        own_[&event] = length;
        if (around) take(around, length);
        calls.push_back(&event);
        continue;
      }
      if (event.correlation >= 0) launcher_.emplace(event.correlation, around);
      if (around && event.name.find("Synchronize") != std::string::npos) {
        take(around, (event.end - event.start).ns);
        waits_[around] = std::max(waits_[around], event.end.ns);
      }
    }
    for (Operator& op : operators_) {
      if (!op.event) continue;
      op.own_ns = std::max<int64_t>(own_[op.event], 0);
      const auto waits = waits_.find(op.event);
      if (waits != waits_.end()) op.waits_until = waits->second;
    }
  }

  // The operator that launched a kernel, or null.
  const Operator* launcher_of(const KinetoEvent& kernel) const {
    const auto by_call = launcher_.find(kernel.correlation);
    const KinetoEvent* event = by_call == launcher_.end() ? nullptr : by_call->second;
    if (!event && kernel.external > 0) {
      const auto by_id = external_.find(kernel.external);
      if (by_id != external_.end()) event = by_id->second;
    }
    const auto found = operator_of_.find(event);
    return event && found != operator_of_.end() ? &operators_[found->second] : nullptr;
  }

  const std::vector<Operator>& operators() const { return operators_; }
  const Operator* find(int64_t id) const {
    const auto found = place_of_.find(id);
    return found == place_of_.end() ? nullptr : &operators_[found->second];
  }

 private:
  void take(const KinetoEvent* from, int64_t ns) { own_[from] = std::max(own_[from] - ns, kLeast); }

  std::vector<Operator> operators_;
  const std::vector<KinetoEvent>& events_;
  std::unordered_map<int64_t, size_t> place_of_;
  std::unordered_map<const KinetoEvent*, size_t> operator_of_;
  std::unordered_map<const KinetoEvent*, int64_t> own_;
  std::unordered_map<const KinetoEvent*, int64_t> waits_;
  std::unordered_map<int64_t, const KinetoEvent*> launcher_;  // by correlation
  std::unordered_map<int64_t, const KinetoEvent*> external_;
};

// --- What is communicated ------------------------------------------------------------------------

struct Communication {
  graph::NodeType type = graph::NodeType::kCompute;
  graph::CollectiveType collective = graph::CollectiveType::kAllReduce;
  int64_t bytes = 0;
  std::string group;
  int64_t peer = -1;
};

std::string letters(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '_' || c == '-' || c == ':') continue;
    out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return out;
}

std::optional<graph::CollectiveType> collective_in(const std::string& name) {
  // "reduce" and "gather" are parts of other names and come last.
  static const std::vector<std::pair<std::string_view, graph::CollectiveType>> kNames = {
      {"allreduce", graph::CollectiveType::kAllReduce},
      {"reducescatter", graph::CollectiveType::kReduceScatter},
      {"allgather", graph::CollectiveType::kAllGather},
      {"alltoall", graph::CollectiveType::kAllToAll},
      {"broadcast", graph::CollectiveType::kBroadcast},
      {"barrier", graph::CollectiveType::kBarrier},
      {"scatter", graph::CollectiveType::kScatter},
      {"gather", graph::CollectiveType::kGather},
      {"reduce", graph::CollectiveType::kReduce}};
  for (const auto& [part, type] : kNames) {
    if (name.find(part) != std::string::npos) return type;
  }
  return std::nullopt;
}

int64_t bytes_of_type(std::string_view dtype) {
  const std::string name = letters(dtype);
  for (const char* wide : {"double", "float64", "long", "int64"}) {
    if (name.find(wide) != std::string::npos) return 8;
  }
  for (const char* half : {"half", "bfloat16", "float16", "short", "int16"}) {
    if (name.find(half) != std::string::npos) return 2;
  }
  for (const char* byte : {"byte", "char", "int8", "bool", "float8"}) {
    if (name.find(byte) != std::string::npos) return 1;
  }
  return 4;
}

// Bytes of the tensors in a value, which is [id, storage, offset, elements, bytes each, device] or
// a list of such.
int64_t tensor_bytes(const Value& value) {
  const auto* list = value.get<Value::Array>();
  if (!list) return 0;
  const auto is_tensor = [&] {
    if (list->size() != 6 || !(*list)[5].get<std::string>()) return false;
    return std::all_of(list->begin(), list->begin() + 5,
                       [](const Value& part) { return part.get<int64_t>() != nullptr; });
  };
  if (is_tensor()) {
    int64_t bytes = 0;
    const bool fits =
        !__builtin_mul_overflow(*(*list)[3].get<int64_t>(), *(*list)[4].get<int64_t>(), &bytes);
    return fits ? std::max<int64_t>(bytes, 0) : 0;
  }
  int64_t sum = 0;
  for (const Value& part : *list) {
    if (__builtin_add_overflow(sum, tensor_bytes(part), &sum)) return INT64_MAX;
  }
  return sum;
}

int64_t input_bytes(const Operator& op) {
  const Value* inputs = op.value->find("inputs");
  if (!inputs) return 0;
  const Value* values = inputs->find("values");
  return tensor_bytes(values ? *values : *inputs);
}

// The kernel's own words count; what they leave out stands at the operators that led to it.
Communication communication_of(const KinetoEvent& kernel, const Operator& launcher,
                               const Joiner& joiner) {
  Communication out;
  if (letters(kernel.name).find("nccl") == std::string::npos) return out;
  std::vector<const Operator*> callers;
  for (const Operator* op = &launcher; op && callers.size() < 64; op = joiner.find(op->parent)) {
    if (std::find(callers.begin(), callers.end(), op) != callers.end()) break;
    callers.push_back(op);
  }
  std::vector<std::string> names = {letters(kernel.collective)};
  const bool pairwise = letters(kernel.name).find("sendrecv") != std::string::npos;
  if (!pairwise) names.push_back(letters(kernel.name));
  for (const Operator* op : callers) {
    names.push_back(letters(text(property(*op->value, "collective_name"))));
    names.push_back(letters(op->name));
  }
  for (const std::string& name : names) {
    // Names of torch's own functions, not words that contain them.
    const bool says_send = name == "send" || name == "isend" || name == "c10dsend" ||
                           name.find("ncclsend") != std::string::npos;
    const bool says_receive = name == "recv" || name == "irecv" || name == "c10drecv" ||
                              name.find("ncclrecv") != std::string::npos;
    if (pairwise && (says_send || says_receive)) {
      out.type = says_send ? graph::NodeType::kSend : graph::NodeType::kReceive;
      break;
    }
    if (const auto collective = collective_in(name)) {
      out.type = graph::NodeType::kCollective;
      out.collective = *collective;
      break;
    }
  }
  if (out.type == graph::NodeType::kCompute) {
    // NCCL makes all-to-all of sends and receives.
    out.type = graph::NodeType::kCollective;
    out.collective = graph::CollectiveType::kAllToAll;
  }
  if (kernel.elements_in >= 0 && kernel.elements_in < INT64_MAX / 8) {
    out.bytes = kernel.elements_in * bytes_of_type(kernel.dtype);
  }
  out.group = kernel.group;
  out.peer = kernel.peer;
  for (const Operator* op : callers) {
    if (out.bytes == 0) out.bytes = input_bytes(*op);
    if (out.group.empty()) out.group = text(property(*op->value, "pg_name"));
  }
  return out;
}

// --- Nodes ---------------------------------------------------------------------------------------

Attribute word(std::string_view name, std::string value) {
  Attribute out;
  out.name = name;
  out.has_value = true;
  out.kind = AttributeKind::kString;
  out.texts = {std::move(value)};
  return out;
}

void set_duration(ChakraNode& node, int64_t ns) {
  node.duration_micros = static_cast<uint64_t>(ns / 1000 + (ns % 1000 >= 500 ? 1 : 0));
  if (ns % 1000 != 0)
    node.attributes.push_back(number_attribute("duration_nanos", AttributeKind::kInt64, ns));
}
void set_start(ChakraNode& node, const KinetoEvent& event) {
  node.start_time_micros = static_cast<uint64_t>(std::max<int64_t>(event.start.ns, 0) / 1000);
}

std::optional<IoInfo> io_info(const Value& node, const char* member) {
  const Value* found = node.find(member);
  if (!found) return std::nullopt;
  const auto as_text = [](const Value* value) {
    if (!value) return std::string();
    const auto* list = value->get<Value::Array>();
    // Around a text as Python prints it, which is how readers look for process groups.
    if (list && list->size() == 1 && (*list)[0].get<std::string>()) {
      return "['" + text(&(*list)[0]) + "']";
    }
    return to_json(*value, -1);
  };
  if (!found->get<Value::Table>()) return IoInfo{as_text(found), "", ""};
  return IoInfo{as_text(found->find("values")), as_text(found->find("shapes")),
                as_text(found->find("types"))};
}

ChakraNode host_node(const Operator& op) {
  ChakraNode out;
  out.id = static_cast<uint64_t>(op.id);
  out.name = op.name;
  const bool groups = op.name.find("process_group:init") != std::string::npos;
  out.type = static_cast<int32_t>(groups ? graph::NodeType::kMetadata : graph::NodeType::kCompute);
  out.inputs = io_info(*op.value, "inputs");
  out.outputs = io_info(*op.value, "outputs");
  out.attributes.push_back(number_attribute("is_cpu_op", AttributeKind::kBool, 1));
  for (const char* name : {"rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid"}) {
    const Value* value = property(*op.value, name);
    if (!value || !value->get<int64_t>()) continue;
    out.attributes.push_back(number_attribute(name, AttributeKind::kInt64, *value->get<int64_t>()));
  }
  const std::string schema = text(property(*op.value, "op_schema"));
  if (!schema.empty()) out.attributes.push_back(word("op_schema", schema));
  if (op.event) set_start(out, *op.event);
  set_duration(out, op.own_ns);
  return out;
}

ChakraNode device_node(int64_t id, const KinetoEvent& kernel, const Communication& said) {
  ChakraNode out;
  out.id = static_cast<uint64_t>(id);
  out.name = kernel.name;
  out.type = static_cast<int32_t>(said.type);
  set_start(out, kernel);
  using enum AttributeKind;
  out.attributes.push_back(number_attribute("is_cpu_op", kBool, 0));
  out.attributes.push_back(number_attribute("stream", kInt64, kernel.stream));
  if (said.type != graph::NodeType::kCompute) {
    if (said.type == graph::NodeType::kCollective) {
      out.attributes.push_back(
          number_attribute("comm_type", kInt64, static_cast<int64_t>(said.collective)));
    } else if (said.peer >= 0 && said.peer <= INT32_MAX) {
      const char* end = said.type == graph::NodeType::kSend ? "comm_dst" : "comm_src";
      out.attributes.push_back(number_attribute(end, kInt32, said.peer));
    }
    out.attributes.push_back(number_attribute("comm_size", kInt64, said.bytes));
    if (!said.group.empty()) out.attributes.push_back(word("pg_name", said.group));
  }
  set_duration(out, (kernel.end - kernel.start).ns);
  return out;
}

void depend(std::vector<uint64_t>& deps, uint64_t id, uint64_t own) {
  if (id != own && std::find(deps.begin(), deps.end(), id) == deps.end()) deps.push_back(id);
}

// One graph of the operators on the host and the kernels on the device.
class GraphOfRun {
 public:
  GraphOfRun(const Joiner& joiner, const std::vector<KinetoEvent>& events)
      : joiner_(joiner), operators_(joiner.operators()), events_(events) {}

  // `orphans` becomes the number of kernels that no operator launched.
  std::vector<ChakraNode> nodes(size_t& orphans) {
    add_host();
    orphans = add_device();
    add_waits();
    return std::move(nodes_);
  }

 private:
  struct Ended {
    int64_t end;
    uint64_t id;
    int64_t thread;
  };
  struct Thread {
    const Operator* before = nullptr;
    int64_t busy_until = INT64_MIN;  // the latest end of its operators so far
  };
  struct Kernel {
    const KinetoEvent* event;
    uint64_t id;
  };

  // What begins on a thread after a pause waited for what ended last on the others.
  void depend_on_last(ChakraNode& node, const Operator& op, Thread& thread) {
    const int64_t start = op.event->start.ns;
    if (thread.busy_until == INT64_MIN || start - thread.busy_until > kPause) {
      // Ended before, not at the same time: else two could wait for each other.
      auto last = std::partition_point(ended_.begin(), ended_.end(),
                                       [&](const Ended& e) { return e.end < start; });
      while (last != ended_.begin() && (last - 1)->thread == op.thread) --last;
      if (last != ended_.begin()) depend(node.data_deps, (last - 1)->id, node.id);
    }
    thread.busy_until = std::max(thread.busy_until, op.event->end.ns);
  }

  // Operators in the order in which they began: of their ids, on each thread.
  void add_host() {
    for (const Operator& op : operators_) {
      if (op.event) ended_.push_back({op.event->end.ns, static_cast<uint64_t>(op.id), op.thread});
    }
    std::sort(ended_.begin(), ended_.end(), [](const Ended& a, const Ended& b) {
      return std::pair(a.end, a.id) < std::pair(b.end, b.id);
    });
    std::map<int64_t, Thread> threads;
    for (const Operator& op : operators_) {
      ChakraNode node = host_node(op);
      if (const Operator* parent = joiner_.find(op.parent); parent && parent->id < op.id) {
        depend(node.ctrl_deps, static_cast<uint64_t>(parent->id), node.id);
      }
      Thread& thread = threads[op.thread];
      if (thread.before) depend(node.data_deps, static_cast<uint64_t>(thread.before->id), node.id);
      if (op.event) depend_on_last(node, op, thread);
      thread.before = &op;
      nodes_.push_back(std::move(node));
    }
  }

  // Behind them the kernels, in the order in which they began. Gives the number of those left out.
  size_t add_device() {
    int64_t next_id = operators_.empty() ? 0 : operators_.back().id + 1;
    size_t orphans = 0;
    for (const KinetoEvent& event : events_) {
      if (event.kind != KinetoKind::kDevice) continue;
      const Operator* launcher = joiner_.launcher_of(event);
      if (!launcher) {
        ++orphans;
        continue;
      }
      ChakraNode node = device_node(next_id++, event, communication_of(event, *launcher, joiner_));
      depend(node.data_deps, static_cast<uint64_t>(launcher->id), node.id);
      std::vector<Kernel>& stream = streams_[{event.device, event.stream}];
      if (!stream.empty()) depend(node.data_deps, stream.back().id, node.id);
      stream.push_back({&event, node.id});
      nodes_.push_back(std::move(node));
    }
    return orphans;
  }

  // Who waited for the device: the first operator of the thread that begins after the wait.
  void add_waits() {
    std::map<int64_t, std::vector<size_t>> on_thread;  // operators with a time, in order of ids
    for (size_t i = 0; i < operators_.size(); ++i) {
      if (operators_[i].event) on_thread[operators_[i].thread].push_back(i);
    }
    for (const auto& [thread, list] : on_thread) {
      for (size_t k = 0; k < list.size(); ++k) {
        const int64_t until = operators_[list[k]].waits_until;
        if (until == INT64_MIN) continue;
        const auto next =
            std::find_if(list.begin() + static_cast<ptrdiff_t>(k) + 1, list.end(),
                         [&](size_t i) { return operators_[i].event->start.ns >= until; });
        if (next != list.end()) depend_on_device(nodes_[*next], until);
      }
    }
  }

  void depend_on_device(ChakraNode& waiter, int64_t until) const {
    for (const auto& [place, stream] : streams_) {
      // A stream runs in order: the last that ended by then stands for all before.
      const auto after =
          std::partition_point(stream.begin(), stream.end(),
                               [&](const Kernel& kernel) { return kernel.event->end.ns <= until; });
      if (after != stream.begin()) depend(waiter.data_deps, (after - 1)->id, waiter.id);
    }
  }

  const Joiner& joiner_;
  const std::vector<Operator>& operators_;
  const std::vector<KinetoEvent>& events_;
  std::vector<Ended> ended_;                                            // by end
  std::map<std::pair<int64_t, int64_t>, std::vector<Kernel>> streams_;  // by device and stream
  std::vector<ChakraNode> nodes_;
};

void add_metadata(const Value& trace, ChakraMetadata& metadata) {
  for (const char* key : {"schema", "time"}) {
    const std::string said = text(trace.find(key));
    if (!said.empty()) metadata.attributes.push_back(word(key, said));
  }
  for (const char* key : {"pid", "start_ts", "finish_ts"}) {
    const int64_t said = integer(trace.find(key), -1);
    if (said < 0) continue;
    metadata.attributes.push_back(number_attribute(key, AttributeKind::kUint64, said));
  }
}

}  // namespace

Result<PytorchTrace> join_pytorch(const Value& trace, const std::string& trace_name,
                                  const Value& kineto, const std::string& kineto_name) {
  const std::vector<KinetoEvent> events = TRY(kineto_events(kineto, kineto_name));
  Joiner joiner(TRY(operators(trace, trace_name)), events);
  const size_t joined = joiner.join_records();
  if (joined == 0) {
    return unusable(
        fmt::format("{} and {} have no recorded function in common", trace_name, kineto_name),
        "traces of the same process and the same iterations");
  }
  joiner.own_times();

  PytorchTrace out;
  add_metadata(trace, out.metadata);
  size_t orphans = 0;
  out.nodes = GraphOfRun(joiner, events).nodes(orphans);
  const size_t operators = joiner.operators().size();
  if (!joiner.has_records()) {
    out.notes.push_back(fmt::format(
        "{} has no \"Record function id\": operators are joined by name and \"External id\"",
        kineto_name));
  }
  if (joined < operators) {
    out.notes.push_back(fmt::format("{} of {} operators have no event in {} and take no time",
                                    operators - joined, operators, kineto_name));
  }
  if (orphans > 0) {
    out.notes.push_back(
        fmt::format("{} kernels of {} were launched by no operator of {} and are "
                    "left out",
                    orphans, kineto_name, trace_name));
  }
  return out;
}

Result<PytorchTrace> read_pytorch(const std::string& execution_trace, const std::string& kineto) {
  if (kineto.empty()) {
    return unusable(
        fmt::format("{}: an execution trace of PyTorch says nothing about time", execution_trace),
        "--kineto FILE, the trace that the profiler exported from the same run");
  }
  const std::string first = TRY(read_unzipped(execution_trace, kUnzippedMax));
  const std::string second = TRY(read_unzipped(kineto, kUnzippedMax));
  const Value trace = TRY(parse_json(first, execution_trace));
  const Value events = TRY(parse_json(second, kineto));
  return join_pytorch(trace, execution_trace, events, kineto);
}

}  // namespace tombolo::chakra
