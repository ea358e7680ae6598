#include "predict/network/fabric.h"

#include <cmath>

#include "base/check.h"

namespace tombolo::network {
namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

Status check(const FabricSize& size) {
  if (size.gpus < 1 || size.gpus > kGpusMax) {
    return unusable(fmt::format("--gpus {}: must lie between 1 and {}", size.gpus, kGpusMax),
                    "--gpus 32768");
  }
  if (size.radix < 4 || size.radix > kRadixMax) {
    return unusable(
        fmt::format("--radix {}: a switch has between 4 and {} ports", size.radix, kRadixMax),
        "--radix 64");
  }
  if (size.radix % 2 != 0) {
    return unusable(
        fmt::format("--radix {}: must be even, half of a switch's ports lead up", size.radix),
        fmt::format("--radix {}", size.radix - 1));
  }
  if (size.domain < 1 || size.domain > kGpusMax) {
    return unusable(fmt::format("--domain {}: must lie between 1 and {}", size.domain, kGpusMax),
                    "--domain 8, the GPUs that share NVLink");
  }
  return {};
}

Status check(const EquipmentPrices& prices) {
  const auto usable = [](Dollars price) { return std::isfinite(price.value) && price.value >= 0; };
  if (!usable(prices.switch_port)) {
    return unusable(
        fmt::format("--switch-port-price {}: must not be negative", prices.switch_port.value),
        "--switch-port-price 748");
  }
  if (!usable(prices.transceiver)) {
    return unusable(
        fmt::format("--transceiver-price {}: must not be negative", prices.transceiver.value),
        "--transceiver-price 374");
  }
  return {};
}

int64_t tiers(int64_t ports, int64_t radix) {
  CHECK(ports >= 1 && ports <= kGpusMax && radix >= 4 && radix <= kRadixMax,
        "a network of {} ports, radix {}", ports, radix);
  int64_t joined = radix;  // 2 (k/2)^1
  int64_t j = 1;
  while (joined < ports) {
    joined *= radix / 2;  // below kGpusMax * kRadixMax / 2
    ++j;
  }
  return j;
}

FabricParts parts_of(Fabric fabric, const FabricSize& size, const EquipmentPrices& prices) {
  const bool separate = fabric == Fabric::kRailOnly;  // else all ports are one network
  const int64_t networks = separate ? size.rails() : 1;
  const int64_t ports = separate ? size.rail() : size.gpus;  // of the largest network
  FabricParts out;
  out.tiers = tiers(ports, size.radix);
  // At most 57 N and 58 N (radix 4 joins 10^9 ports in 29 tiers): far from overflow.
  out.switches = divide_up((2 * out.tiers - 1) * size.gpus, size.radix);
  out.transceivers = 2 * out.tiers * size.gpus;
  out.switches_whole_rails =
      out.tiers == 1 ? divide_up(networks, size.radix / ports) : out.switches;
  out.cost = static_cast<double>(out.switches * size.radix) * prices.switch_port +
             static_cast<double>(out.transceivers) * prices.transceiver;
  return out;
}

double cost_reduction(const FabricParts& before, const FabricParts& now) {
  return before.cost.value > 0 ? (before.cost - now.cost) / before.cost : 0.0;
}

int64_t percent_cut_off(const FabricParts& before, const FabricParts& now) {
  if (before.cost.value <= 0) return 0;
  // Multiplied first: with whole-dollar prices a whole percentage stays whole.
  return static_cast<int64_t>(std::trunc(100 * (before.cost - now.cost).value / before.cost.value));
}

}  // namespace tombolo::network
