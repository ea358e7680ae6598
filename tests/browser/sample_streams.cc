#include "sample_streams.h"

namespace tombolo::report {

StreamChartPage sample_streams() {
  StreamChartPage page;
  page.title = "Strands of a sample";
  page.summary = "8 operators </script><b>hostile</b>";
  page.cards = {{"Gain", "1.500", "above 1.400 in 19 cases of 20"}};
  page.rows = {"computation", "local link", "cross link"};
  page.end = 2000;
  page.blocks = {{"FC2d", 0, 0, 500, "--kind-B"},      {"AG1", 1, 0, 400, "--kind-SEND_F"},
                 {"QKV", 0, 500, 900, "--kind-F"},     {"bRS2", 1, 500, 900, "--kind-SEND_F"},
                 {"FC2w", 0, 900, 1500, "--kind-B"},   {"P1", 2, 900, 1400, "--kind-SEND_B"},
                 {"FA1", 0, 1500, 1999.5, "--kind-F"}, {"LN", 0, 1999.5, 2000, "--kind-F"}};
  page.legend = {{"forward", "--kind-F"},
                 {"backward", "--kind-B"},
                 {"tensor communication", "--kind-SEND_F"},
                 {"keys and values", "--kind-SEND_B"}};
  page.tables = {{.title = "Where the time goes",
                  .columns = {"", "time", "of all", ""},
                  .figures = 2,
                  .rows = {{"computation", "2000.0 us", "100.0 %", ""}}}};
  page.notes = {"a sample"};
  page.command = "tombolo strand sample.toml";
  page.version = "sample";
  return page;
}

}  // namespace tombolo::report
