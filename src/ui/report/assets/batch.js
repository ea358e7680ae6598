// A run whose pipelines change how many microbatches each computes: the numbers over the iterations, and why they changed.
"use strict";

const kPipelinesDrawn = 6;  // beyond that the fewest and the most
const kPipelineColors = ["--kind-F", "--kind-R", "--kind-SEND_B", "--kind-U", "--kind-C", "--kind-B"];

const batch_trace = [main_trace, ...data.traces].find((trace) => trace.batch);

// "7,7,7,7"; of many pipelines "3 to 8".
const division_text = (numbers) => numbers.join(batch_trace.batch.each ? "," : " to ");

function batch_section() {
  if (!batch_trace) return [];
  const {iteration, each, pipelines} = batch_trace.batch;
  const of_all = (choose) => iteration.map((_, i) => choose(pipelines.map((numbers) => numbers[i])));
  const named = each && pipelines.length <= kPipelinesDrawn ? pipelines.map((y, p) => [`pipeline ${p}`, y])
                                                    : [["the fewest", of_all(d3.min)], ["the most", of_all(d3.max)]];
  const series = named.map(([name, y], i) => ({name, x: iteration, y, color: kPipelineColors[i], steps: true}));
  const chart = line_chart({title: "Microbatches of each pipeline", badges: [badge_of(batch_trace)], series, format: String, axis_format: String, from_zero: true});
  return [
    element("div", {class: "charts"}, chart),
    ...decisions_table(batch_trace, batch_trace.batch, "division", [
      {title: "Microbatches", number: true, of: ({before, microbatches}) => `${division_text(before)} → ${division_text(microbatches)}`},
    ]),
  ];
}
