// Runs of graphs: what stands in place of iterations and Plans. Exposed time, dimensions, inputs.
"use strict";

const kCauses = [["compute_ns", "Compute", "--kind-F"], ["host_ns", "Host", "--kind-U"], ["local_memory_ns", "Local memory", "--kind-R"],
                 ["remote_memory_ns", "Remote memory", "--kind-W"], ["communication_ns", "Communication", "--kind-SEND_B"],
                 ["idle_ns", "Idle", "--idle"]];
const whole_of = (row) => d3.sum(kCauses, ([key]) => row[key]);

function graph_cards(trace) {
  const {finish_ns, exposed, dimensions} = trace.graph;
  const cards = [card("Until the last rank ends", badge_of(trace), figure_of(time_parts(finish_ns)), `${finish_ns.toLocaleString("en")} ns`)];
  const last = exposed.find((row) => whole_of(row) === finish_ns);
  if (last) {
    cards.push(card("Exposed communication", badge_of(trace), share_text(finish_ns > 0 ? last.communication_ns / finish_ns : 0),
                    `${time_text(last.communication_ns)} of the last rank's time`));
  }
  if (dimensions.length > 0) {
    cards.push(card("Sent", badge_of(trace), figure_of(bytes_text(d3.sum(dimensions, (use) => use.bytes)).split(" ")),
                    `by all NPUs, along ${plural(dimensions.length, "dimension")}`));
  }
  return cards;
}

function graph_sections(trace) {
  const {exposed, dimensions, finish_ns} = trace.graph;
  const bar = (row) => {
    const text = kCauses.map(([key, name]) => `${name} ${time_text(row[key], 3)}`).join(", ");
    return element("div", {class: "bar", role: "img", "aria-label": text, title: text}, kCauses.filter(([key]) => row[key] > 0)
      .map(([key, , color]) => element("span", {style: `width:${100 * row[key] / Math.max(1, finish_ns)}%;background:var(${color})`})));
  };
  const used = kCauses.filter(([key]) => exposed.some((row) => row[key] > 0));
  const causes = [
    {title: "Rank", of: (row) => row.label},
    {title: "", class: "wide", of: bar},
    ...used.map(([key, name]) => ({title: name, number: true, of: (row) => row[key] === 0 ? "–" : time_text(row[key], 4)})),
  ];
  const busy = (share) => element("span", {class: "use"}, element("span", {style: `width:${Math.min(100, 100 * share)}%`}));
  const uses = [
    {title: "Dimension", of: (use) => use.label},
    {title: "Sent by all", number: true, of: (use) => bytes_text(use.bytes)},
    {title: "Per NPU", number: true, of: (use) => bytes_text(use.bytes_mean)},
    {title: "Most", number: true, of: (use) => bytes_text(use.bytes_max)},
    {title: "Links busy", number: true, of: (use) => [busy(use.busy_mean), use.busy_mean === 0 ? "–" : share_text(use.busy_mean)]},
    {title: "Busiest NPU", number: true, of: (use) => [busy(use.busy_max), use.busy_max === 0 ? "–" : share_text(use.busy_max)]},
  ];
  return [
    element("div", {class: "causes"}, table_of(causes, exposed)),
    element("ul", {class: "legend"}, used.map(([, name, color]) => legend_item(name, color)), element("li", {}, badge_of(trace))),
    element("p", {class: "note"}, "Every instant until a rank ends counts once: for a computation if one is under way, else for the host, remote " +
            "memory, communication, in this order. Local memory has what computations by roofline take beyond their operations at peak " +
            "performance. A receive counts from when its message has left; before, the rank is idle."),
    ...(dimensions.length === 0 ? [] : [element("h3", {class: "part"}, "Dimensions ", badge_of(trace)), table_of(uses, dimensions),
      element("p", {class: "note"}, "Shares are those of all links of an NPU in the dimension, at their bandwidth, until the last rank ends.")]),
  ];
}

function graph_summary() {
  const facts = new Map(main_trace.graph.inputs);
  return ["network", "NPUs", "law"].filter((what) => facts.has(what)).map((what) => what === "NPUs" ? `${facts.get(what)} NPUs` :
    what === "law" ? `law ${facts.get(what)}` : facts.get(what)).join(" · ");
}

function graph_inputs(trace) {
  return element("div", {class: "facts"}, element("div", {}, element("h3", {}, "Made from"), element("table", {}, element("tbody", {},
    trace.graph.inputs.map(([what, text]) => element("tr", {}, element("th", {scope: "row"}, what), element("td", {class: "wraps"}, text)))))));
}

// Where there are neither iterations nor a Plan.
function hide_what_graphs_lack() {
  document.getElementById("iteration-control").hidden = true;
  document.getElementById("search").placeholder = "ALL_REDUCE, chunk:3, rank:1, dimension 0";
  document.getElementById("gantt-help").textContent = document.getElementById("gantt-help").textContent.replace("the whole iteration", "all of it");
}
