#include "ui/perform_commands/watched_run.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>

#include "base/fields.h"
#include "base/file.h"
#include "base/json.h"

namespace tombolo::perform_commands {
namespace {

struct Watch {
  std::string address;
  std::string network;  // the run's namespace, "net:[4026531840]"
};
template <class Archive>
void describe(Archive& a, Watch& watch) {
  a.required("address", watch.address);
  a.required("network", watch.network);
}

std::string watch_path(const std::string& folder) { return folder + "/watch.json"; }

std::string network_of(const std::string& process) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + process + "/ns/net", error).string();
}

// From now on this process's sockets are in that network. Some process in it is looked for: the
// run's own number is another one outside of its islands.
Status enter_network(const std::string& network) {
  if (network == network_of("self")) return {};
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string process = entry.path().filename();
    if (network_of(process) != network) continue;
    const int fd = open(("/proc/" + process + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC);
    const bool in = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
    if (fd >= 0) close(fd);
    if (in) return {};
  }
  return unusable("the run is in another network (emulated islands)",
                  "the same as root, or from inside: tombolo-islands exec HOST tombolo status");
}

}  // namespace

Result<std::unique_ptr<WatchedRun>> WatchedRun::open(const std::string& address,
                                                     const observe::Telemetry& telemetry) {
  const transport::Address at = TRY(transport::parse_address(address));
  std::unique_ptr<WatchedRun> run(new WatchedRun());
  run->pages_ = TRY(during(
      transport::serve_pages(
          at, {{"/metrics",
                {"text/plain; version=0.0.4", [&telemetry] { return telemetry.prometheus(); }}},
               {"/status",
                {"application/json", [&telemetry] { return to_json(telemetry.status()); }}}}),
      "opening --metrics"));
  return run;
}

Status WatchedRun::announce(const std::string& folder) {
  const Watch watch{address().text(), network_of("self")};
  TRY(write_file(watch_path(folder), to_json(write_fields(watch)) + "\n"));
  path_ = watch_path(folder);  // removed at the end
  return {};
}

WatchedRun::~WatchedRun() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove(path_, ignored);
}

Result<std::string> status_page_of(const std::string& folder) {
  const std::string path = watch_path(folder);
  if (!std::filesystem::exists(path))
    return unusable(fmt::format("{}: no run is active here", folder),
                    "--out with the folder that tombolo train was given, or --at ADDRESS:PORT");
  const Value file = TRY(parse_json(TRY(read_file(path)), path));
  const Watch watch = TRY(read_fields<Watch>(file, path));
  TRY(enter_network(watch.network));
  return transport::http_page(TRY(transport::parse_address(watch.address)), "/status");
}

}  // namespace tombolo::perform_commands
