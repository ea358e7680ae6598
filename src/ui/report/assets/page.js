// Puts the page together and joins the controls to the timeline.
"use strict";

const by_id = (id) => document.getElementById(id);

function fill_sections() {
  by_id("summary").textContent = data.plan ? data.plan.summary : of_graphs ? graph_summary() : "";
  by_id("notices").append(...notices());
  by_id("cards").append(...headline_cards());
  if (data.plan) by_id("sources").append(data.plan.cost_sentence);
  by_id("machine").append(...machine_lines());
  fill_section("breakdown", breakdown_section());
  fill_section("prediction", prediction_section());
  fill_section("line", of_graphs ? [] : line_section());
  fill_section("batch", of_graphs ? [] : batch_section());
  fill_section("learning", of_graphs ? [] : learning_section());
  fill_section("inputs", inputs_section());
  if (of_graphs) hide_what_graphs_lack();
}

// A section with nothing in it is left out, and so is the link to it.
function fill_section(id, parts) {
  if (parts.length > 0) return void by_id(`${id}-body`).append(...parts);
  by_id(id).remove();
  document.querySelector(`.contents a[href="#${id}"]`).remove();
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
    if (trace.timeline.intervals_left_out > 0 && !cut_of(trace)) {
      out.push(`${plural(trace.timeline.intervals_left_out, "interval")} of prompts of the ${trace.provenance} Trace are left out.`);
    }
  }
  const held = data.traces[0].timeline.iterations;
  if (data.traces.length === 2 && main_trace.timeline.iterations.some((i) => !data.traces[0].by_iteration.has(i.iteration))) {
    out.push(`The ${data.traces[0].provenance} Trace ends with iteration ${held[held.length - 1].iteration}; other iterations are
              compared with that one.`);
  }
  if (folds) {
    out.push(`A folded row shows what its ranks do together: the height of a colour is the share of them that is at that work, on
              links how many messages are under way for each link.`);
  }
  return out.join(" ").replace(/\s+/g, " ");
}

// The first iteration whose intervals are not all in the page.
const cut_of = (trace) => trace.timeline.iterations.find((part) => part.cut_ns !== undefined);

// Above a timeline that is cut: what is shown of what.
function cut_banners() {
  return data.traces.filter(cut_of).map((trace) => {
    const {iteration, duration_ns, cut_ns} = cut_of(trace);
    const {intervals, intervals_left_out} = trace.timeline;
    const [shown, unit] = time_parts(cut_ns, 3), whole = time_text(duration_ns, 3);
    const part = whole.endsWith(" " + unit) ? `${shown} of ${whole}` : `${shown} ${unit} of ${whole}`;
    return element("p", {class: "notice cut"}, element("strong", {}, "This timeline is cut. "), badge_of(trace),
      ` It shows the first ${part}${trace.graph ? "" : ` of iteration ${iteration}`}: ${intervals.toLocaleString("en")} of ` +
      `${plural(intervals + intervals_left_out, "interval")}, so that the page stays small enough to open. Behind that, rows are ` +
      "hatched: ranks were not idle there. All figures outside of the timeline are over the whole Trace.");
  });
}

const gantt = new Gantt(by_id("gantt"), by_id("overview"), by_id("tooltip"));

function start_timeline() {
  const select = by_id("iteration");
  const numbers = main_trace.timeline.iterations.map((i) => i.iteration);
  for (const number of numbers) select.append(element("option", {value: number}, String(number)));
  if (numbers.length > 1) select.append(element("option", {value: "all"}, "all"));

  const arrangement = {by: "stage", links: true, open: new Set()};
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
    const lanes = gantt.view.groups.flatMap((group) => arrange(group.all, arrangement));
    const count = d3.sum(lanes, (entry) => d3.sum(entry.tracks, (track) => d3.sum(track.hits(gantt.search))));
    by_id("matches").value = count === 1 ? "1 match" : `${count.toLocaleString("en")} matches`;
    return undefined;
  };
  // Rows change, intervals do not.
  const rearrange = () => {
    arrangement.by = by_id("rows").value;
    arrangement.links = by_id("links").checked;
    for (const group of gantt.view.groups) arrange_group(group, arrangement);
    gantt.resize();
    count_matches();
  };
  by_id("rows").addEventListener("change", () => {
    arrangement.open.clear();
    rearrange();
  });
  by_id("links").addEventListener("change", rearrange);
  gantt.on_toggle = (block) => {
    if (!arrangement.open.delete(block)) arrangement.open.add(block);
    rearrange();
  };
  select.addEventListener("change", () => choose(select.value));
  by_id("iteration-before").addEventListener("click", () => step(-1));
  by_id("iteration-after").addEventListener("click", () => step(1));
  by_id("zoom-in").addEventListener("click", () => gantt.zoom_by(1.6));
  by_id("zoom-out").addEventListener("click", () => gantt.zoom_by(1 / 1.6));
  by_id("zoom-reset").addEventListener("click", () => gantt.whole());
  const search = () => {
    gantt.set_search(parse_search(by_id("search").value));
    const asked = gantt.search && gantt.search.iteration;
    if (select.value !== "all" && numbers.includes(asked) && select.value !== String(asked)) choose(asked);
    count_matches();
    gantt.on_change();
  };
  by_id("search").addEventListener("input", search);

  by_id("legend").append(...legend_of(kinds_present()));
  by_id("gantt-note").textContent = gantt_notes();
  by_id("cuts").append(...cut_banners());
  if (folds) by_id("gantt-help").append(" A click opens a folded row, or ↑ and ↓ and Enter.");
  // The first iteration after the warm-up speaks for the others.
  const first = String(numbers[Math.min(main_trace.summary.warmup, numbers.length - 1)]);

  // The view in the page's address (view_hash.js): what is there as it opens is left out.
  const read = () => {
    const [from, to] = gantt.scale.domain();
    const zoomed = from > 0 || to < gantt.view.end;
    return {iteration: select.value === first ? null : select.value, rows: arrangement.by === "stage" ? null : arrangement.by,
            links: arrangement.links ? null : "no", open: [...arrangement.open].sort().join(",") || null, find: by_id("search").value || null,
            from: zoomed ? Math.round(from) : null, to: zoomed ? Math.round(to) : null};
  };
  const show = ({iteration, rows, links, open, find, from, to}) => {
    by_id("rows").value = arrangement.by = has_replicas && rows === "pipeline" ? rows : "stage";
    by_id("links").checked = arrangement.links = !has_replicas || links !== "no";
    arrangement.open = new Set(folds && open ? open.split(",") : []);
    choose([...select.options].some((option) => option.value === iteration) ? iteration : first);
    by_id("search").value = find || "";
    search();
    if (Number(to) > Number(from)) gantt.show(Number(from), Number(to));
  };
  show(read_hash());
  const hash = keep_view_in_hash(read, show);
  gantt.on_change = hash.changed;
}

fill_sections();
start_timeline();
