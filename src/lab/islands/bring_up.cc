#include "lab/islands/bring_up.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "lab/islands/kernel_settings.h"
#include "lab/islands/layout.h"

namespace tombolo::islands {
namespace {

constexpr const char* kTunDevice = "/dev/net/tun";

// Makes wan0 in the namespace of the calling thread.
Result<FileDescriptor> make_tun() {
  FileDescriptor fd(open(kTunDevice, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return unusable(fmt::format("{}: {}", kTunDevice, std::strerror(errno)));
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  std::strcpy(request.ifr_name, "wan0");
  if (ioctl(fd.get(), TUNSETIFF, &request) != 0) {
    return failed(fmt::format("{}: making wan0: {}", kTunDevice, std::strerror(errno)));
  }
  TRY(wanem::enable_offloads(fd.get()));
  return fd;
}

size_t index_of(const cluster::Cluster& cluster, const std::string& datacenter) {
  for (size_t d = 0; d < cluster.datacenters.size(); ++d) {
    if (cluster.datacenters[d].name == datacenter) return d;
  }
  CHECK(false, "a host in {}, which is no datacenter", datacenter);
}

// A bridge, and for each host of the datacenter a cable whose other end appears there as lan0.
// Neither spanning tree nor multicast snooping: the first frame passes at once.
Status wire_up(const NetworkNamespace& network, const std::vector<const Island*>& islands) {
  std::string commands =
      "link add name switch type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n"
      "link set switch up\n";
  for (const Island* island : islands) {
    commands += fmt::format(
        "link add name port{0} type veth peer name lan0 netns {1}\n"
        "link set port{0} master switch up\n",
        island->host.node, island->network.path());
  }
  return network.inside([&]() -> Status {
    TRY(apply({{"net.ipv6.conf.all.disable_ipv6", "1", {}},
               {"net.ipv6.conf.default.disable_ipv6", "1", {}}}));
    return run_ip(commands);
  });
}

// wan0 queues what the Forwarder has not read yet: 20,000 frames, so that drops happen in the
// emulated queue and nowhere else.
Status give_address(const Island& island, const cluster::Cluster& cluster) {
  std::string commands = fmt::format(
      "link set lo up\n"
      "link set lan0 up\n"
      "addr add {}/24 dev lan0\n"
      "link set wan0 mtu 1500 txqueuelen 20000 up\n",
      island.host.address);
  for (size_t d = 0; d < cluster.datacenters.size(); ++d) {
    if (!cluster.link(island.host.datacenter, cluster.datacenters[d].name)) continue;
    commands += fmt::format("route add {} dev wan0 src {}\n", prefix_of(static_cast<int64_t>(d)),
                            island.host.address);
  }
  return island.network.inside([&] { return run_ip(commands); });
}

}  // namespace

const Island* Archipelago::find(const std::string& name) const {
  for (const Island& island : islands) {
    if (island.host.name == name || island.host.address == name) return &island;
  }
  return nullptr;
}

Status apply_settings(Archipelago& archipelago, const cluster::Cluster& cluster,
                      double byte_scale) {
  for (const Island& island : archipelago.islands) {
    TRY(island.network.inside([&]() -> Status {
      archipelago.missing = TRY(apply(settings_of(cluster, island.host.datacenter, byte_scale)));
      return {};
    }));
  }
  return {};
}

Result<Archipelago> bring_up(const cluster::Cluster& cluster, std::vector<cluster::Host> hosts,
                             double byte_scale) {
  CHECK(!hosts.empty(), "islands without a host");
  Archipelago out;
  for (cluster::Host& host : hosts) {
    NetworkNamespace network = TRY(NetworkNamespace::create());
    FileDescriptor tun;
    TRY(network.inside([&]() -> Status {
      tun = TRY(make_tun());
      return {};
    }));
    host.network_namespace = network.path();
    out.islands.push_back({std::move(host), std::move(network), std::move(tun)});
  }
  // Before any device is up, so that nothing ever runs under other settings.
  TRY(apply_settings(out, cluster, byte_scale));
  for (const cluster::Datacenter& datacenter : cluster.datacenters) {
    std::vector<const Island*> here;
    for (const Island& island : out.islands) {
      if (island.host.datacenter == datacenter.name) here.push_back(&island);
    }
    out.switches.push_back(TRY(NetworkNamespace::create()));
    TRY(during(wire_up(out.switches.back(), here), "joining the hosts of " + datacenter.name));
  }
  for (const Island& island : out.islands) {
    TRY(during(give_address(island, cluster), "giving " + island.host.name + " its address"));
  }
  return out;
}

std::vector<wanem::Port> ports_of(const Archipelago& archipelago, const cluster::Cluster& cluster) {
  std::vector<wanem::Port> ports;
  for (const Island& island : archipelago.islands) {
    ports.push_back({.tun_fd = island.tun.get(),
                     .address = address_number(island.host.address),
                     .datacenter = static_cast<int>(index_of(cluster, island.host.datacenter)),
                     .name = island.host.name});
  }
  return ports;
}

}  // namespace tombolo::islands
