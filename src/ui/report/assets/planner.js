// The page of a decision. A row that is chosen, in the chart or in the table, is marked everywhere and stays in the address.
"use strict";

let chosen = null;  // a row of the first table, from 1 on
let answer_chart = null;

function mark_rows() {
  for (const node of document.querySelectorAll("[data-row]")) node.classList.toggle("chosen", Number(node.dataset.row) === chosen);
  if (answer_chart) answer_chart.show(chosen);
}

function fill_sections() {
  fill_parts();
  for (const heading of document.querySelectorAll("#tables > section:not(.given) > h2")) heading.append(" ", badge("predicted"));
  if (data.map) {
    by_id("places").hidden = false;
    new ClusterMap(by_id("map"), data.map);
    by_id("map-note").textContent = data.map.note;
  }
  if (data.chart) {
    by_id("answers").hidden = false;
    by_id("answers-title").textContent = data.chart.title;
    answer_chart = new AnswerChart(data.chart, (row) => choose(row));
    by_id("chart").append(answer_chart.root);
    by_id("chart-note").textContent = data.chart.note;
  }
  by_id("bars").append(...data.bars.map(bars_section));
  by_id("break-even").hidden = data.ranges.length === 0;
  by_id("ranges").append(...data.ranges.map((ranges) => new RangeStrip(ranges).root));
  if (!data.chart) return;
  document.querySelectorAll("#table-0 tbody tr").forEach((tr, i) => {
    tr.dataset.row = i + 1;
    tr.addEventListener("click", () => choose(i + 1));
  });
}

fill_sections();

const view = keep_view_in_hash(() => ({row: chosen}), ({row}) => {
  chosen = Number(row) > 0 ? Number(row) : null;
  mark_rows();
});
function choose(row) {
  chosen = chosen === row ? null : row;
  mark_rows();
  view.changed();
}
chosen = Number(read_hash().row) > 0 ? Number(read_hash().row) : null;
mark_rows();
