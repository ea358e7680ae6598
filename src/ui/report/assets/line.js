// A run whose share of gradients follows the line: what was believed of the line, what was sent, how long iterations
// took, below one another over the same iterations; and why, where it was decided.
"use strict";

const kLineRecords = ["density", "line_rate", "line_capacity", "fresh_share"];  // and the loss, which Learning has as well

// The Trace to show: the main one where it has densities.
const line_trace = [main_trace, ...data.traces].find((trace) => trace.decisions);

// As decisions state it: "0.72 %", "5 %".
const density_text = (density) => Number((100 * density).toPrecision(3)) + " %";

function line_section() {
  if (!line_trace) return [];
  const {density, line_rate, line_capacity, fresh_share, loss} = line_trace.records;
  const {newest} = line_trace.decisions;
  // Without the last one, which ends with all that is still on its way then, several times as long.
  const {iteration, duration_ns} = line_trace.iteration_times;
  const times = {iteration: iteration.slice(0, -1), duration_ns: duration_ns.slice(0, -1)};
  const why = new Why(newest);
  const curve = (record, name, color, how = {}) => record ? [{name, x: record.iteration, y: record.value, color, ...how}] : [];
  // Bits have round ticks where rates are said in them.
  const rates = [...curve(line_capacity, "could carry", "--kind-C", {dashed: true}), ...curve(line_rate, "believed", "--kind-F", {steps: true})]
                    .map((series) => ({...series, y: series.y.map((bytes_per_s) => 8 * bytes_per_s)}));
  const bits_text = (bits_per_s) => rate_text(bits_per_s / 8);
  const options = [
    {title: "Rate of the line", series: rates, format: bits_text, axis_format: bits_text, from_zero: true},
    {title: "Share of gradients that is sent", series: curve(density, "density", "--kind-SEND_B", {steps: true}), format: density_text, axis_format: density_text,
     from_zero: true, marks: newest.map(({iteration, density}) => ({x: iteration, y: density}))},
    {title: "Iteration time", series: [{name: "time", x: times.iteration, y: times.duration_ns, color: "--kind-R"}],
     format: (ns) => time_text(ns, 3), axis_format: (ns) => time_text(ns, 2), from_zero: true},
    {title: "Share of parameters that were up to date", series: curve(fresh_share, "fresh", "--kind-U"), format: share3_text,
     axis_format: (share) => Math.round(100 * share) + " %", from_zero: true},
    {title: "Loss (nats per token)", series: curve(loss, "loss", "--kind-B"), format: (v) => significant(v, 4)},
  ].filter(({series}) => series.length > 0 && series[0].x.length > 0);
  const join = [], domain = d3.extent(options.flatMap(({series}) => series.flatMap(({x}) => x)));
  const charts = options.map((option, i) => {
    const last = i === options.length - 1;
    const root = line_chart({...option, badges: [badge_of(line_trace)], join, domain, quiet: !last, height: last ? 148 : 116,
                             on_point: option.marks ? (at) => why.show(at, join) : null});
    if (option.marks && newest.length > 0) root.append(why.node);
    return root;
  });
  return [
    element("div", {class: "charts aligned"}, charts),
    element("p", {class: "note"}, line_note(line_capacity)),
    ...decisions_table(line_trace, line_trace.decisions, "share", [
      {title: "Share", number: true, of: ({before, density}) => `${before === null ? "" : density_text(before) + " → "}${density_text(density)}`},
      {title: "Line, believed", number: true, of: ({line_bytes_per_s}) => line_bytes_per_s === null ? "–" : rate_text(line_bytes_per_s)},
    ]),
  ];
}

function line_note(line_capacity) {
  return "The rate is what was believed of the line when the share of an iteration was decided: a few iterations before, so that all ranks " +
         "hear of it in time." + (line_capacity ? " Dashed: what the line could carry in that iteration, which no rank knows." : "");
}

// The decision that holds at the iteration that is pointed at, in words; without a pointer the last one.
class Why {
  constructor(decisions) {
    this.decisions = decisions;
    this.node = element("p", {class: "why"});
    this.at = -1;
  }
  show(iteration, charts) {
    const i = iteration === null ? this.decisions.length - 1 : d3.bisectRight(this.decisions.map((each) => each.iteration), iteration) - 1;
    const words = i >= 0 ? [element("strong", {}, `From iteration ${this.decisions[i].iteration} on: `), this.decisions[i].reason]
                         : ["The density that the run began with."];
    this.node.replaceChildren(...words);
    for (const {marks} of charts) {
      if (marks) marks.classed("holds", (_, m) => m === i && iteration !== null).attr("r", (_, m) => m === i && iteration !== null ? 6 : 3.5);
    }
  }
}
