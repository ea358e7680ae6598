#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lab/islands/emulate.h"
#include "lab/islands/kernel_settings.h"

namespace tombolo::islands {
namespace {

std::string describe_link(const cluster::WanLink& link, double byte_scale) {
  const auto scaled = [&](auto quantity) { return brief(quantity / byte_scale); };
  std::string out = fmt::format("  {} - {}: {} one way, ", link.between[0], link.between[1],
                                brief(link.one_way_latency));
  out += link.rate_trace.empty() ? scaled(link.node_pair_limit) + " per node pair"
                                 : "rate per node pair from " + link.rate_trace;
  if (link.path_limit) out += ", " + scaled(*link.path_limit) + " shared";
  if (link.queue) out += ", queue " + scaled(*link.queue);
  if (link.jitter.value > 0) out += ", jitter " + brief(link.jitter);
  if (link.loss > 0) out += fmt::format(", loss {} (bursts of {})", link.loss, link.loss_burst);
  if (link.tcp_window) out += ", TCP window " + scaled(*link.tcp_window);
  return out + '\n';
}

// Said once for the datacenters that have the same.
std::string describe_settings(const Emulation& emulation) {
  std::vector<std::pair<std::string, std::string>> groups;  // lines, names
  for (const cluster::Datacenter& datacenter : emulation.cluster.datacenters) {
    std::string lines;
    for (const auto& setting :
         settings_of(emulation.cluster, datacenter.name, emulation.byte_scale)) {
      lines += fmt::format("  {} = {}: {}\n", setting.key, setting.value, setting.why);
    }
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const auto& group) { return group.first == lines; });
    if (same == groups.end()) {
      groups.emplace_back(lines, datacenter.name);
    } else {
      same->second += ", " + datacenter.name;
    }
  }
  std::string out;
  for (const auto& [lines, names] : groups) {
    out += fmt::format("kernel settings in {}\n{}", names, lines);
  }
  return out;
}

}  // namespace

std::string describe_islands(const Emulation& emulation, const Archipelago& archipelago,
                             pid_t pid_outside, const std::string& netem) {
  CHECK(!archipelago.islands.empty(), "{}: islands without a host", emulation.file);
  std::string out = fmt::format("{} hosts of {}", archipelago.islands.size(), emulation.file);
  if (emulation.byte_scale != 1) {
    out += fmt::format(", rates, queues and TCP windows divided by {}", emulation.byte_scale);
  }
  out += '\n';
  for (const Island& island : archipelago.islands) {
    out += fmt::format("  {:<16} {:<13} nsenter --target {} --mount --pid --net=/proc/{}/fd/{}\n",
                       island.host.name, island.host.address, pid_outside, pid_outside,
                       island.network.descriptor());
  }
  out += "links\n";
  const auto& datacenters = emulation.cluster.datacenters;
  for (size_t a = 0; a < datacenters.size(); ++a) {
    for (size_t b = a + 1; b < datacenters.size(); ++b) {
      const cluster::WanLink* link =
          emulation.cluster.link(datacenters[a].name, datacenters[b].name);
      out += link ? describe_link(*link, emulation.byte_scale)
                  : fmt::format("  {} - {}: none; they cannot reach each other\n",
                                datacenters[a].name, datacenters[b].name);
    }
  }
  out += describe_settings(emulation);
  for (const std::string& key : archipelago.missing) {
    out += fmt::format("  {}: this kernel does not have it\n", key);
  }
  const Status read = archipelago.islands.front().network.inside([&]() -> Status {
    out += fmt::format("  net.ipv4.tcp_congestion_control = {}: of the machine; sockets choose\n",
                       read_setting("net.ipv4.tcp_congestion_control"));
    return {};
  });
  if (!read) out += read.error().text() + '\n';
  out += fmt::format("tc netem in this kernel: {}; not used\n", netem);
  return out;
}

std::string describe_counters(const wanem::Forwarder& forwarder) {
  std::string out;
  for (const wanem::LinkCounters& link : forwarder.counters()) out += link.brief() + '\n';
  if (out.empty()) out = "nothing has crossed the WAN yet\n";
  return out + forwarder.report().brief() + '\n';
}

Value counters_value(const wanem::Forwarder& forwarder) {
  Value::Array links;
  for (const wanem::LinkCounters& link : forwarder.counters()) {
    const auto number = [](uint64_t n) { return Value(static_cast<int64_t>(n)); };
    links.push_back(Value::Table{{"from", link.from},
                                 {"to", link.to},
                                 {"frames", number(link.frames)},
                                 {"segments", number(link.segments)},
                                 {"bytes", number(link.bytes)},
                                 {"segments_delivered", number(link.segments_delivered)},
                                 {"bytes_delivered", number(link.bytes_delivered)},
                                 {"dropped_by_queue", number(link.dropped_by_queue)},
                                 {"dropped_by_loss", number(link.dropped_by_loss)},
                                 {"writes_failed", number(link.writes_failed)},
                                 {"lateness_p50_ns", link.lateness_p50.ns},
                                 {"lateness_p99_ns", link.lateness_p99.ns},
                                 {"lateness_max_ns", link.lateness_max.ns}});
  }
  const wanem::ForwarderReport report = forwarder.report();
  return Value::Table{
      {"links", std::move(links)}, {"realtime", report.realtime}, {"cpu_s", report.cpu.value}};
}

}  // namespace tombolo::islands
