// A run that others can watch: its pages, and where to find them.
//
// While the run lasts its folder contains `watch.json`: the address of the pages, and the
// process, whose network namespace may differ from the watching process's (islands).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "perform/observe/telemetry.h"
#include "perform/transport/http_pages.h"

namespace tombolo::perform_commands {

class WatchedRun {
 public:
  // Serves the pages. Their address is not published before announce().
  static Result<std::unique_ptr<WatchedRun>> open(const std::string& address,
                                                  const observe::Telemetry& telemetry);
  Status announce(const std::string& folder);
  ~WatchedRun();
  const transport::Address& address() const { return pages_->address(); }

 private:
  WatchedRun() = default;
  std::unique_ptr<transport::HttpServer> pages_;
  std::string path_;
};

// The status page of the run in this folder. kUnusable if no run is in progress there. Enters the
// run's network namespace, if that is another one.
Result<std::string> status_page_of(const std::string& folder);

}  // namespace tombolo::perform_commands
