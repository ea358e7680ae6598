// Puts the page together and joins the controls to the timeline.
"use strict";

const by_id = (id) => document.getElementById(id);

function fill_sections() {
  by_id("summary").textContent = data.plan ? data.plan.summary : of_graphs ? graph_summary() : "";
  by_id("notices").append(...notices());
  by_id("cards").append(...headline_cards());
  if (data.plan) by_id("sources").append(data.plan.cost_sentence);
  by_id("machine").append(...machine_lines());
  by_id("breakdown-body").append(...breakdown_section());
  by_id("prediction-body").append(...prediction_section());
  by_id("learning-body").append(...learning_section());
  by_id("inputs-body").append(...inputs_section());
  if (of_graphs) hide_what_graphs_lack();
}

function kinds_present() {
  const present = new Set(data.traces.flatMap((trace) => trace.actions.map((action) => action.kind)));
  return Object.entries(kKinds).filter(([kind]) => present.has(kind));
}

// Kinds of one name are one item with all their colours.
function legend_of(kinds) {
  const items = new Map();
  for (const [, {name, color}] of kinds) {
    if (items.has(name)) items.get(name).prepend(element("span", {class: "swatch", style: `background:var(${color})`}));
    else items.set(name, legend_item(name, color));
  }
  return items.values();
}

// What is not in the page, and which prediction stands beside which iteration.
function gantt_notes() {
  const out = [];
  for (const trace of data.traces) {
    if (trace.graph) out.push(...trace.graph.left_out);
    const shown = trace.timeline.iterations.length, all = trace.summary.iterations + trace.summary.warmup;
    if (shown < all) {
      out.push(`To stay small, this page holds the intervals of ${shown} of ${all} ${trace.provenance} iterations: the first,
                the last, and evenly spaced ones between. All figures are over the whole Trace.`);
    }
    if (trace.timeline.intervals_left_out > 0) {
      out.push(`${plural(trace.timeline.intervals_left_out, "interval")} of the ${trace.provenance} Trace are left out.`);
    }
  }
  const held = data.traces[0].timeline.iterations;
  if (data.traces.length === 2 && main_trace.timeline.iterations.some((i) => !data.traces[0].by_iteration.has(i.iteration))) {
    out.push(`The ${data.traces[0].provenance} Trace ends with iteration ${held[held.length - 1].iteration}; other iterations are
              held against that one.`);
  }
  return out.join(" ").replace(/\s+/g, " ");
}

const gantt = new Gantt(by_id("gantt"), by_id("overview"), by_id("tooltip"));

function start_timeline() {
  const select = by_id("iteration");
  const numbers = main_trace.timeline.iterations.map((i) => i.iteration);
  for (const number of numbers) select.append(element("option", {value: number}, String(number)));
  if (numbers.length > 1) select.append(element("option", {value: "all"}, "all"));

  const arrangement = {by: "stage", links: true};
  by_id("rows-control").hidden = !has_replicas;
  const choose = (value) => {
    select.value = value;
    const at = select.selectedIndex;
    by_id("iteration-before").disabled = at <= 0;
    by_id("iteration-after").disabled = at >= numbers.length - 1;
    gantt.set_view(build_view(value === "all" ? "all" : Number(value), arrangement));
    by_id("gantt").setAttribute("aria-label", `Timeline of iteration ${value}: ` +
      gantt.view.groups.map((group) => `${group.trace.provenance} ${gantt.title_of(group)}`).join("; "));
    count_matches();
  };
  const step = (by) => choose(select.options[select.selectedIndex + by].value);
  const count_matches = () => {
    if (!gantt.search) return void (by_id("matches").value = "");
    const items = gantt.view.groups.flatMap((g) => g.lanes.flatMap((entry) => entry.tracks.flatMap((track) => track.items)));
    const count = items.filter(gantt.search.matches).length;
    by_id("matches").value = count === 1 ? "1 match" : `${count.toLocaleString("en")} matches`;
    return undefined;
  };
  const rearrange = () => {
    arrangement.by = by_id("rows").value;
    arrangement.links = by_id("links").checked;
    const [from, to] = gantt.scale.domain();
    choose(select.value);
    gantt.show(from, to);
  };
  by_id("rows").addEventListener("change", rearrange);
  by_id("links").addEventListener("change", rearrange);
  select.addEventListener("change", () => choose(select.value));
  by_id("iteration-before").addEventListener("click", () => step(-1));
  by_id("iteration-after").addEventListener("click", () => step(1));
  by_id("zoom-in").addEventListener("click", () => gantt.zoom_by(1.6));
  by_id("zoom-out").addEventListener("click", () => gantt.zoom_by(1 / 1.6));
  by_id("zoom-reset").addEventListener("click", () => gantt.whole());
  by_id("search").addEventListener("input", () => {
    gantt.set_search(parse_search(by_id("search").value));
    const asked = gantt.search && gantt.search.iteration;
    if (select.value !== "all" && numbers.includes(asked) && select.value !== String(asked)) choose(asked);
    count_matches();
  });

  by_id("legend").append(...legend_of(kinds_present()));
  by_id("gantt-note").textContent = gantt_notes();
  // The first iteration after the warm-up speaks for the others.
  choose(numbers[Math.min(main_trace.summary.warmup, numbers.length - 1)]);
}

fill_sections();
start_timeline();
