#include "base/units.h"

#include <charconv>
#include <cmath>

namespace tombolo {
namespace {

constexpr Unit kSeconds[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3},
                             {"s", 1},     {"min", 60},  {"h", 3600}};
constexpr Unit kBytes[] = {{"B", 1},
                           {"KB", 1e3},
                           {"KiB", 1024.0},
                           {"MB", 1e6},
                           {"MiB", 1048576.0},
                           {"GB", 1e9},
                           {"GiB", 1073741824.0},
                           {"TB", 1e12},
                           {"TiB", 1099511627776.0},
                           {"PB", 1e15},
                           {"EB", 1e18}};
constexpr Unit kRates[] = {{"bps", 0.125},  {"Bps", 1},    {"Kbps", 125},   {"KBps", 1e3},
                           {"Mbps", 125e3}, {"MBps", 1e6}, {"Gbps", 125e6}, {"GBps", 1e9},
                           {"Tbps", 125e9}, {"TBps", 1e12}};
constexpr Unit kFlops[] = {{"FLOP", 1},    {"KFLOP", 1e3},  {"MFLOP", 1e6},
                           {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}};
constexpr Unit kFlopRates[] = {
    {"FLOPS", 1}, {"MFLOPS", 1e6}, {"GFLOPS", 1e9}, {"TFLOPS", 1e12}, {"PFLOPS", 1e15}};
constexpr Unit kDollars[] = {{"USD", 1}};
constexpr Unit kPrices[] = {
    {"USD/device-hour", 1.0 / 3600}, {"USD/hour", 1.0 / 3600}, {"USD/s", 1}};
constexpr Unit kTraffic[] = {{"USD/GB", 1e-9}, {"USD/B", 1}};

const UnitTable kSecondsTable{kSeconds, "20 ms"};
const UnitTable kBytesTable{kBytes, "80 GB\" or \"80 GiB"};
const UnitTable kRatesTable{kRates, "5 Gbps\" (bits) or \"625 MBps\" (bytes), not \"5 Gb"};
const UnitTable kFlopsTable{kFlops, "3 GFLOP"};
const UnitTable kFlopRatesTable{kFlopRates, "312 TFLOPS"};
const UnitTable kDollarsTable{kDollars, "5 USD"};
const UnitTable kPricesTable{kPrices, "2.10 USD/device-hour"};
const UnitTable kTrafficTable{kTraffic, "0.02 USD/GB"};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Units as datasheets spell them: "GB/s", "Gb/s" and "Gbit/s", "TFLOP/s", "kB", "µs".
std::string as_in_tables(std::string_view unit) {
  std::string out(unit);
  constexpr std::string_view kMicro[] = {"\u00b5", "\u03bc"};  // the sign, and the Greek letter
  for (const std::string_view micro : kMicro) {
    if (out.starts_with(micro)) out.replace(0, micro.size(), "u");
  }
  if (out.size() > 1 && out.front() == 'k') out.front() = 'K';
  if (!out.ends_with("/s") || out.starts_with("USD")) return out;
  out.resize(out.size() - 2);
  if (out.ends_with("bit")) out.resize(out.size() - 2);
  return out + (out.ends_with("FLOP") ? "S" : "ps");
}

std::string known_units(const UnitTable& table) {
  std::string out;
  for (const Unit& unit : table.units) out += (out.empty() ? "" : ", ") + std::string(unit.name);
  return out;
}

}  // namespace

template <>
const UnitTable& unit_table<Seconds>() {
  return kSecondsTable;
}
template <>
const UnitTable& unit_table<Bytes>() {
  return kBytesTable;
}
template <>
const UnitTable& unit_table<BytesPerSecond>() {
  return kRatesTable;
}
template <>
const UnitTable& unit_table<Flops>() {
  return kFlopsTable;
}
template <>
const UnitTable& unit_table<FlopsPerSecond>() {
  return kFlopRatesTable;
}
template <>
const UnitTable& unit_table<Dollars>() {
  return kDollarsTable;
}
template <>
const UnitTable& unit_table<DollarsPerSecond>() {
  return kPricesTable;
}
template <>
const UnitTable& unit_table<DollarsPerByte>() {
  return kTrafficTable;
}

namespace detail {

Result<double> parse_quantity(std::string_view text, const UnitTable& table) {
  const std::string_view trimmed = trim(text);
  double number = 0;
  const auto [rest, ec] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  const std::string hint = fmt::format("\"{}\"", table.example);
  if (ec != std::errc{} || !std::isfinite(number)) {
    return unusable(fmt::format("\"{}\" does not begin with a finite number", text), hint);
  }
  const std::string_view unit = trim({rest, trimmed.data() + trimmed.size()});
  if (unit.empty()) return unusable(fmt::format("\"{}\" has no unit", text), hint);
  const std::string other = as_in_tables(unit);
  for (const Unit& known : table.units) {
    if (known.name != unit && known.name != other) continue;
    const double value = number * known.factor;
    if (!std::isfinite(value)) return unusable(fmt::format("\"{}\" is too large", text), hint);
    return value;
  }
  return unusable(fmt::format("unknown unit \"{}\"", unit),
                  fmt::format("{}; the units here are {}", hint, known_units(table)));
}

std::string format_quantity(double value, const UnitTable& table) {
  // The shortest of all spellings that come back exactly; the first one wins a tie, so that "1000
  // MB" becomes "1 GB" and the text is the same on every machine.
  std::string best;
  for (auto unit = table.units.rbegin(); unit != table.units.rend(); ++unit) {
    const std::string digits = fmt::format("{}", value / unit->factor);
    double back = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), back);
    if (back * unit->factor != value) continue;
    if (best.empty() || digits.size() + unit->name.size() + 1 < best.size()) {
      best = fmt::format("{} {}", digits, unit->name);
    }
  }
  return best;  // never empty: every table has a unit with factor 1
}

std::string format_short(double value, const UnitTable& table) {
  const Unit* best = &table.units.front();
  if (value == 0) {  // "0 s", not "0 ns"
    for (const Unit& unit : table.units) {
      if (unit.factor == 1) best = &unit;
    }
    return fmt::format("0 {}", best->name);
  }
  for (const Unit& unit : table.units) {
    // Binary units are for files; for people the decimal ones are enough.
    if (unit.name.find('i') != std::string_view::npos && unit.name != "min") continue;
    if (unit.name.size() > 1 && unit.name[1] == 'B') {
      if (unit.name.ends_with("Bps")) continue;  // rates of links are read in bits
    }
    if (unit.name == "Bps") continue;
    if (unit.name == "min" || unit.name == "h") {
      if (std::abs(value) < 3 * unit.factor) continue;
    }
    if (unit.factor == best->factor) continue;  // of two names for one unit the first
    if (std::abs(value) >= unit.factor * 0.9995) best = &unit;
  }
  return fmt::format("{:.3g} {}", value / best->factor, best->name);
}

}  // namespace detail
std::string grouped(int64_t number) {
  std::string out = fmt::format("{}", number);
  const int64_t first = number < 0 ? 1 : 0;  // digit
  for (auto at = std::ssize(out) - 3; at > first; at -= 3) {
    out.insert(static_cast<size_t>(at), 1, ',');
  }
  return out;
}

}  // namespace tombolo
