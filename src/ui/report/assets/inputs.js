// The last section: what a run started from.
"use strict";

function inputs_section() {
  const facts = (title, rows) => element("div", {}, element("h3", {}, title), element("table", {},
    element("tbody", {}, rows.map(([key, text]) => element("tr", {}, element("th", {scope: "row"}, key), element("td", {class: "wraps"}, text))))));
  const out = data.traces.flatMap((trace) => [element("div", {class: "commands"},
    badge_of(trace), element("pre", {tabindex: 0}, trace.command || "(no command recorded)"),
    element("p", {class: "note"}, [["version", trace.version], ["seed", trace.seed], ["plan", trace.plan_digest],
      ["fingerprint", trace.fingerprint], ["byte scale", trace.byte_scale === 1 ? "" : String(trace.byte_scale)],
      ["intervals", trace.intervals.toLocaleString("en")]].filter(([, value]) => value !== "").map(([key, value]) => `${key} ${value}`).join(" · ")))]);
  if (of_graphs) return [...out, ...data.traces.map(graph_inputs)];
  if (!data.plan) return [...out, element("p", {}, "The Trace carries no Plan.")];
  const stages = [["Stage", "stage", true], ["Ranks", "ranks"], ["Datacenter", "datacenter"], ["Device", "device"], ["Layers", "layers"],
                  ["Forward", "forward", true], ["Backward", "backward", true], ["Recompute", "recompute", true], ["Update", "update", true],
                  ...(data.plan.replicas > 1 ? [["Gradients", "gradients", true], ["Sum", "reduce", true]] : []), ["State", "state", true]];
  const links = [["WAN link", "between"], ["One way", "latency", true], ["Node pair", "node_pair", true], ["Path", "path", true],
                 ["Connections", "connections", true], ["TCP window", "window", true], ["One flow", "flow_rate", true], ["Measured", "measured", true]];
  const table = (columns, rows) => table_of(columns.map(([title, key, number]) => ({title, number, of: (row) => String(row[key])})), rows);
  out.push(element("div", {class: "facts"}, data.plan.facts.map(({title, rows}) => facts(title, rows))));
  out.push(element("h3", {}, "Stages ", badge(data.plan.cost_source === "profile" ? "measured" : "predicted")), table(stages, data.plan.stages), element("p", {class: "note"}, data.plan.cost_sentence));
  if (data.plan.links.length > 0) out.push(element("div", {class: "part"}, element("h3", {}, "Links"), table(links, data.plan.links)));
  out.push(plan_block());
  return out;
}

function plan_block() {
  const text = element("pre", {tabindex: 0, id: "plan-json"}, data.plan.json);
  const button = element("button", {type: "button", id: "copy-plan"}, "Copy");
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(text);
    try {
      await navigator.clipboard.writeText(data.plan.json);
      button.textContent = "Copied";
    } catch (refused) {
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return element("details", {}, element("summary", {}, "The whole Plan (JSON)"), element("div", {class: "tools"}, button), text);
}
