#include "ui/report/page_parts.h"

#include "base/check.h"
#include "ui/report/template.h"

namespace tombolo::report {

Value cards_data(const std::vector<HeatMapCard>& cards) {
  Value::Array out;
  for (const HeatMapCard& card : cards) {
    out.push_back(
        Value::Table{{"what", card.what}, {"figure", card.figure}, {"detail", card.detail}});
  }
  return out;
}

Value layers_data(const std::vector<HeatMapLayer>& layers) {
  Value::Array out;
  for (const HeatMapLayer& layer : layers) {
    out.push_back(Value::Table{{"name", layer.name}, {"color", layer.color}});
  }
  return out;
}

Value tables_data(const std::vector<HeatMapTable>& tables) {
  Value::Array out;
  for (const HeatMapTable& table : tables) {
    Value::Array rows;
    for (const std::vector<std::string>& row : table.rows) {
      CHECK(row.size() == table.columns.size(), "a row of {} cells under {} columns", row.size(),
            table.columns.size());
      rows.push_back(texts(row));
    }
    out.push_back(Value::Table{{"title", table.title},
                               {"columns", texts(table.columns)},
                               {"figures", table.figures},
                               {"rows", std::move(rows)},
                               {"remark", table.remark},
                               {"given", table.given}});
  }
  return out;
}

}  // namespace tombolo::report
