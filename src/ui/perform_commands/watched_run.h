// A run that others can watch: its pages, and where to find them.
//
// In the run's folder stands `watch.json` as long as the run lasts: the address of the pages and
// the process, whose network namespace may be another one than that of whoever watches (islands).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "perform/observe/telemetry.h"
#include "perform/transport/http_pages.h"

namespace tombolo::perform_commands {

class WatchedRun {
 public:
  // Serves the pages. Nobody is told where before announce().
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

// The status page of the run in this folder. kUnusable where none is going on there. Enters the
// run's network namespace, where that is another one.
Result<std::string> status_page_of(const std::string& folder);

}  // namespace tombolo::perform_commands
