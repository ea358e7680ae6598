// Sections made of text, tables and curves: the headline, the breakdown, the comparison, learning.
"use strict";

// columns: [{title, of, number, class}]; `of` gives a text or a node.
function table_of(columns, rows, row_class = () => null) {
  const kind = (column) => [column.number ? "number" : "", column.class || ""].join(" ").trim() || null;
  return element("div", {class: "scroll"}, element("table", {},
    element("thead", {}, element("tr", {}, columns.map((c) => element("th", {class: kind(c), scope: "col"}, c.title)))),
    element("tbody", {}, rows.map((row, i) => element("tr", {class: row_class(row, i)},
      columns.map((c) => element("td", {class: kind(c), "data-title": typeof c.title === "string" ? c.title : null}, c.of(row))))))));
}

function card(what, badges, figure, detail) {
  return element("div", {class: "card"},
                 element("div", {class: "what"}, element("span", {}, what), element("span", {}, badges)),
                 element("div", {class: "figure"}, figure), element("div", {class: "detail"}, detail));
}

function figure_of(parts) {
  return [parts[0] + " ", element("small", {}, parts[1])];
}

function iterations_used({iterations, warmup, min_ns, max_ns}) {
  if (iterations === 1) return warmup ? `1 iteration, after ${warmup} of warm-up` : "1 iteration";
  const range = min_ns === max_ns ? "all equal" : range_text(min_ns, max_ns);
  return `median of ${iterations} iterations${warmup ? ` after ${warmup} of warm-up` : ""}, ${range}`;
}

function headline_cards() {
  const cards = of_graphs ? data.traces.flatMap(graph_cards) : data.traces.map((trace) => card(
    "Iteration time", badge_of(trace), figure_of(time_parts(trace.summary.median_ns)), iterations_used(trace.summary)));
  if (data.comparison) cards.push(error_card(data.comparison.error));
  cards.push(...figure_cards());
  const {loss} = main_trace.records;
  if (loss && loss.value.length > 1) {
    const last = loss.value.length - 1;
    cards.push(card("Loss", badge_of(main_trace), [significant(loss.value[last], 4) + " ", element("small", {}, "nats/token")],
                    `from ${significant(loss.value[0], 4)}, over ${plural(loss.iteration[last], "iteration")}`));
  }
  cards.push(...data.traces.filter((trace) => trace.busy).map(busy_card));
  return cards;
}

// What the commands say beside an iteration's time: of the run, and of the prediction below it.
function figure_cards() {
  const figures = main_trace.figures;
  if (!figures) return [];
  const of_figure = (value, parts) => value === null ? "–" : figure_of(parts(value));
  const other = data.traces.find((trace) => trace !== main_trace && trace.figures);
  const beside = (key, text, otherwise) => !other || other.figures[key] === null ? otherwise
    : [badge_of(other), ` ${text(other.figures[key])}`];
  const time = `at the ${main_trace.summary.iterations > 1 ? "median " : ""}iteration time`;
  const dollars = (value) => value >= 0.995 ? "$" + figure_text(value) : value === 0 ? "$0" : "$" + value.toFixed(Math.min(9, 2 - Math.floor(Math.log10(value))));
  const {tokens_per_s, mfu, cost_usd, devices, memory_peak_bytes, memory_bytes, memory_rank} = figures;
  return [
    card("Throughput", badge_of(main_trace), of_figure(tokens_per_s, (value) => [figure_text(value), "tokens/s"]),
         tokens_per_s === null ? "the job has no model" : beside("tokens_per_s", (value) => `${figure_text(value)} tokens/s`, time)),
    card("MFU", badge_of(main_trace), of_figure(mfu, (value) => [significant(100 * value, 3), "%"]),
         mfu === null ? "stage times were given, not derived" : beside("mfu", share3_text, "of the devices' peak, for the model's FLOPs")),
    card("Memory peak", badge("predicted"), of_figure(memory_peak_bytes, (value) => bytes_text(value).split(" ")),
         memory_peak_bytes === null ? "the job has no model"
           : `of ${bytes_text(memory_bytes)} (${share_text(memory_peak_bytes / memory_bytes)}), on rank ${memory_rank}`),
    card("Cost per iteration", badge_of(main_trace), cost_usd === null ? "–" : dollars(cost_usd),
         cost_usd === null ? "a datacenter names no price" : beside("cost_usd", dollars, "devices and WAN traffic at the cluster's prices")),
    card("Devices", badge_of(main_trace), devices.toLocaleString("en"),
         data.plan && data.plan.ranks !== devices ? `in ${plural(data.plan.ranks, "rank")}` : "one for each rank"),
  ];
}

function busy_card(trace) {
  const {busy_share, too_busy} = trace.busy;
  const out = card("Machine busy", badge_of(trace), busy_share === null ? "–" : figure_of([significant(100 * busy_share, 2), "%"]),
                   too_busy ? "too busy: times say more about this machine than about the Plan" : "of all cores' time during the run");
  if (too_busy) out.classList.add("warns");
  return out;
}

function error_card(error) {
  const [first, second] = data.traces;
  const predicts = first.provenance === "predicted" && second.provenance !== "predicted";
  const sense = percent_text(error) === "0.0 %" ? "the two agree"
              : `the ${predicts ? "prediction" : "first"} is ${error < 0 ? "shorter" : "longer"}`;
  return card(predicts ? "Error" : "Difference", [badge_of(first), " ", badge_of(second)],
              percent_text(error), `of the ${second.provenance} iteration time: ${sense}`);
}

// How busy the machine was: whether the figures of an emulated run can be believed. A record's unit is
// the end of its name; one of 0 and 1 is a yes or no.
function machine_lines() {
  return data.traces.filter((trace) => trace.machine.length > 0).map((trace) => {
    const parts = trace.machine.map(machine_part);
    return element("p", {class: "note machine"}, badge_of(trace), ` The machine during this run: ${parts.join("; ")}.`);
  });
}
const kMachineWords = {busy_share: "busy", own_share: "busy with this run", cores_used: "cores used by a rank", late_s: "waits ended late by"};
const kMachineYesNo = {  // of 1, of 0, of some ranks
  too_busy: ["too busy for these figures to mean anything", "not too busy", "too busy at times"],
  realtime: ["with real-time scheduling", "without real-time scheduling", "real-time scheduling on some ranks"],
};
function machine_part({name, mean, max}) {
  if (name in kMachineYesNo) return kMachineYesNo[name][mean === 1 ? 0 : mean === 0 ? 1 : 2];
  const words = kMachineWords[name] ?? name.replace(/_s$/, "").replaceAll("_", " ");
  const text = name.endsWith("_share") ? share_text : name.endsWith("_s") ? (s) => time_text(s * 1e9, 3) : (v) => significant(v, 3);
  return mean === max ? `${words} ${text(mean)}` : `${words} ${text(mean)} on average, ${text(max)} at most`;
}
function machine_was_too_busy(trace) {
  return trace.machine.some(({name, max}) => name === "too_busy" && max > 0);
}

// What a reader must know before believing a figure.
function notices() {
  const out = [];
  const [first, second] = data.traces;
  if (second && !data.comparison.same_work) {
    out.push("These Traces come from Plans that divide other work: what differs between them is not an error of prediction.");
  } else if (second && first.plan_digest !== second.plan_digest) {
    out.push("The Plans of these Traces divide the same work, but expect other durations or ask for other steps or seeds.");
  }
  for (const trace of data.traces) {
    if (trace.provenance === "emulated") {
      out.push("Emulated: bytes, sockets and schedule are real, but every computation is a wait of its predicted " +
               "duration. No figure here was measured on the device that is named.");
    }
    if (machine_was_too_busy(trace)) {
      out.push(`The machine was too busy during the ${trace.provenance} run: its times say more about this machine than about the Plan.`);
    }
    if (trace.byte_scale !== 1) {
      out.push(`Payloads, link rates and TCP windows of the ${trace.provenance} run were divided by
                ${trace.byte_scale}, times unchanged.`);
    }
  }
  return out.map((text) => element("p", {class: "notice"}, text));
}

const kPrompts = ["prompts_ns", "Prompts", "--kind-PROMPT"];
const kParts = [["compute_ns", "Compute", "--kind-F"], ["exposed_communication_ns", "Exposed communication", "--kind-SEND_B"],
                ["idle_ns", "Idle", "--idle"]];

// Where prompts were answered in the gaps, what they took stands apart.
function parts_of_time() {
  const prompts = data.traces.some((trace) => trace.breakdown.some((row) => row.prompts_ns > 0));
  return prompts ? [kParts[0], kPrompts, ...kParts.slice(1)] : kParts;
}

// How busy all ranks were together, with prompts and without.
function prompts_text(trace) {
  const sum = (key) => d3.sum(trace.breakdown, (row) => row[key] || 0);
  const all = d3.sum(parts_of_time(), ([key]) => sum(key));
  return ` Ranks compute for training ${share_text(sum("compute_ns") / all)} of the time, ` +
         `and with prompts ${share_text((sum("compute_ns") + sum("prompts_ns")) / all)}.`;
}

// A row for each rank of each Trace, or where they are folded for each stage, whose ranks a click adds.
function breakdown_rows() {
  const ranks = [...new Set(data.traces.flatMap((trace) => trace.breakdown.map((row) => row.rank)))].sort((a, b) => a - b);
  const of_rank = new Map(data.traces.map((trace) => [trace, new Map(trace.breakdown.map((row) => [row.rank, row]))]));
  const lane_of = new Map(data.traces.map((trace) => [trace, new Map(rank_lanes(trace).map((lane) => [lane.rank, lane]))]));
  const row_of = (found, key, trace, t, place) => {
    const begins = t === 0 || !of_rank.get(data.traces[0]).has(key);
    return {...found, trace, begins, place};
  };
  const rows_of = (rank) => data.traces.flatMap((trace, t) => {
    const found = of_rank.get(trace).get(rank), lane = lane_of.get(trace).get(rank);
    return found ? [{...row_of(found, rank, trace, t, lane ? lane.detail : ""), name: `rank ${rank}`}] : [];
  });
  if (!folds) return ranks.flatMap(rows_of);
  const stages = new Map();
  for (const {rank, stage = 0} of rank_lanes(main_trace)) stages.set(stage, [...(stages.get(stage) || []), rank]);
  return [...stages].sort(([a], [b]) => a - b).flatMap(([stage, members]) => data.traces.map((trace, t) => {
    const found = members.map((rank) => of_rank.get(trace).get(rank)).filter(Boolean);
    const mean = Object.fromEntries(parts_of_time().map(([key]) => [key, d3.mean(found, (row) => row[key] || 0)]));
    return {...mean, trace, begins: t === 0, name: `stage ${stage}`, place: `mean of ${plural(members.length, "rank")}`,
            below: t === data.traces.length - 1 ? () => members.slice(0, kOpenMax).flatMap(rows_of) : null, key: `stage-${stage}`};
  }));
}

function breakdown_section() {
  if (of_graphs) return data.traces.flatMap(graph_sections);
  const parts = parts_of_time();
  const longest = d3.max(data.traces, (trace) => trace.summary.median_ns);
  const rows = breakdown_rows();
  const columns = [
    {title: folds ? "Stage" : "Rank", of: (row) => row.begins ? element("span", {}, row.name + " ", element("span", {class: "note"}, row.place)) : ""},
    {title: "", of: (row) => brief_badge_of(row.trace)},
    {title: "", class: "wide", of: (row) => breakdown_bar(row, longest)},
    ...parts.map(([key, name]) => ({title: name, number: true, of: (row) => time_text(row[key] || 0, 3)})),
  ];
  const row_class = (row, i) => row.begins && i > 0 ? "begins" : null;
  const table = table_of(columns, rows, row_class);
  if (folds) rows.forEach((row, i) => { if (row.below) add_opener(table.querySelectorAll("tbody > tr"), rows, i, columns, row_class); });
  return [
    element("div", {class: "stacks"}, table),
    element("ul", {class: "legend"}, parts.map(([, name, color]) => legend_item(name, color)),
            data.traces.map((trace) => element("li", {}, badge_of(trace)))),
    element("p", {class: "note"}, "Per rank, mean over the iterations of the headline. Communication is exposed " +
            "while the rank computes nothing and one of its messages is on the way, or a pass waits for its collectives" +
            (has_replicas ? ", or it is in the gradient all-reduce or waits there for other replicas" : "") +
            "; idle is what remains.",
            data.traces.filter((trace) => trace.breakdown.some((row) => row.prompts_ns > 0)).map((trace) => [" ", badge_of(trace), prompts_text(trace)])),
  ];
}

// A button before a stage's name, which puts the rows of its ranks below its own, and takes them away.
function add_opener(lines, rows, last, columns, row_class) {
  let first = last;
  while (!rows[first].begins) --first;
  const button = element("button", {type: "button", class: "opener", "aria-expanded": "false", "aria-label": `Ranks of ${rows[first].name}`}, "▸");
  lines[first].cells[0].prepend(button);
  let added = [];
  button.addEventListener("click", () => {
    const open = added.length === 0;
    for (const line of added) line.remove();
    added = open ? [...table_of(columns, rows[last].below(), row_class).querySelectorAll("tbody > tr")] : [];
    for (const line of added) line.classList.add("inner");
    lines[last].after(...added);
    button.textContent = open ? "▾" : "▸";
    button.setAttribute("aria-expanded", String(open));
  });
}

function breakdown_bar(row, longest) {
  const parts = parts_of_time();
  const text = parts.map(([key, name]) => `${name} ${time_text(row[key] || 0, 3)}`).join(", ");
  return element("div", {class: "bar", role: "img", "aria-label": text, title: text},
                 parts.map(([key, , color]) => element("span", {style: `width:${100 * (row[key] || 0) / longest}%;background:var(${color})`})));
}

function legend_item(name, color) {
  return element("li", {}, element("span", {class: "swatch", style: `background:var(${color})`}), name);
}

function prediction_section() {
  if (!data.comparison) return [];
  const [first, second] = data.traces;
  const columns = [
    {title: "Work", of: (row) => kKinds[row.kind].name},
    {title: "Stage", number: true, of: (row) => row.stage},
    {title: badge_of(first), number: true, of: (row) => time_or_dash(row.first_ns)},
    {title: badge_of(second), number: true, of: (row) => time_or_dash(row.second_ns)},
    {title: "Error", number: true, of: (row) => row.error === null ? "–" : [error_bar(row.error), percent_text(row.error)]},
  ];
  const table = table_of(columns, data.comparison.rows);
  return [element("div", {class: "two"}, element("div", {}, table,
    element("p", {class: "note"}, "Mean duration of one piece of work. The error is (first − second) / second: negative where " +
            "the first was too short. A bar of full length means 25 % or more." +
            (has_replicas ? " A gradient all-reduce counts from each rank's arrival, waiting for the others included." : ""))), iteration_chart())];
}

function time_or_dash(ns) {
  return ns === null ? "–" : time_text(ns, 3);
}

function error_bar(error) {
  const width = Math.min(Math.abs(error) / 0.25, 1) * 50;
  return element("span", {class: "gap", "aria-hidden": "true"},
                 element("span", {style: `width:${width}%;${error < 0 ? "right" : "left"}:50%`}));
}

function iteration_chart() {
  const [first, second] = data.traces;
  const curve = second.iteration_times;
  return line_chart({
    title: "Iteration time", badges: [badge_of(first), " ", badge_of(second)], format: (ns) => time_text(ns, 3), axis_format: (ns) => time_text(ns, 2), from_zero: true,
    series: [{name: second.provenance, x: curve.iteration, y: curve.duration_ns, color: "--" + second.provenance}],
    levels: [{name: first.provenance, y: first.summary.median_ns, color: "--" + first.provenance}],
  });
}

function learning_section() {
  const elsewhere = [...(main_trace === line_trace ? kLineRecords : []), ...(main_trace === batch_trace ? ["microbatches"] : [])];
  const {loss, evaluation_loss, tokens_per_s, learning_rate, ...others} = main_trace.records;
  const curve = (record, name, color, points) => ({name, x: record.iteration, y: record.value, color, points});
  const charts = [];
  const add = (title, series, format) => charts.push(line_chart({title, badges: [badge_of(main_trace)], series, format}));
  if (loss || evaluation_loss) {
    add("Loss (nats per token)", [...(loss ? [curve(loss, "loss", "--kind-F")] : []),
        ...(evaluation_loss ? [curve(evaluation_loss, "evaluation", "--kind-SEND_B", true)] : [])], (v) => significant(v, 4));
  }
  if (tokens_per_s) add("Tokens per second", [curve(tokens_per_s, "tokens/s", "--kind-R")], (v) => Math.round(v).toLocaleString("en"));
  if (learning_rate) add("Learning rate", [curve(learning_rate, "learning rate", "--kind-U")], (v) => v.toExponential(1));
  for (const [name, record] of Object.entries(others).filter(([name]) => !elsewhere.includes(name))) add(name.replaceAll("_", " "), [curve(record, name, "--kind-C")], (v) => significant(v, 4));
  return charts.length > 0 ? [element("div", {class: "charts"}, charts)] : [];
}
