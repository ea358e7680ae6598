// Words and numbers: how the page says things. No drawing here.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

// An element with attributes and children; texts become text nodes, never markup.
function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === false || value == null) continue;
    if (key === "style") node.style.cssText = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child != null) node.append(child);
  }
  return node;
}

// predicted, emulated or measured: stands on every figure.
function badge(provenance) {
  return element("span", {class: "badge " + provenance}, provenance);
}

// Where both Traces have one provenance, the badge alone would not tell them apart; where bytes were
// scaled down, no figure stands without saying so.
function badge_of(trace) {
  const node = brief_badge_of(trace);
  if (trace.byte_scale !== 1) node.append(" · " + scale_text(trace));
  return node;
}
// For the rows of a figure whose legend has the whole badge.
function brief_badge_of(trace) {
  const twins = data.traces.filter((other) => other.provenance === trace.provenance);
  const node = badge(trace.provenance);
  if (twins.length > 1) node.append(" " + (data.traces.indexOf(trace) + 1));
  return node;
}
const scale_text = (trace) => `bytes\u00a0÷\u00a0${trace.byte_scale}`;

const kKinds = {
  F: {name: "Forward", color: "--kind-F"},
  B: {name: "Backward", color: "--kind-B"},
  I: {name: "Backward, of inputs", color: "--kind-B"},
  W: {name: "Backward, of weights", color: "--kind-W"},
  R: {name: "Recompute", color: "--kind-R"},
  REDUCE_GRAD: {name: "Gradient all-reduce", color: "--kind-REDUCE", brief: "+"},
  SUM_TIED: {name: "Gradients of the tied embedding", color: "--kind-REDUCE"},
  TP: {name: "Tensor communication", color: "--kind-SEND_F", brief: "="},
  CP: {name: "Context communication", color: "--kind-SEND_B", brief: "="},
  EP: {name: "Expert communication", color: "--kind-E", brief: "="},
  DP: {name: "Communication of ZeRO 3", color: "--kind-REDUCE", brief: "="},
  U: {name: "Optimizer update", color: "--kind-U"},
  SEND_F: {name: "Activations on a link", color: "--kind-SEND_F"},
  SEND_B: {name: "Gradients on a link", color: "--kind-SEND_B"},
  RECV_F: {name: "Receiving activations", color: "--kind-RECV"},
  RECV_B: {name: "Receiving gradients", color: "--kind-RECV"},
  E: {name: "Evaluation", color: "--kind-E"},
  C: {name: "Checkpoint", color: "--kind-C"},
  PROMPT: {name: "Prompt, in a gap", color: "--kind-PROMPT", brief: "p"},
  NODE: {name: "Node", color: "--kind-C"},
  // Nodes of graphs by their lane. Chunks of a collective keep their colour from dimension to dimension.
  compute: {name: "Computation", color: "--kind-F"},
  host: {name: "Host", color: "--kind-U"},
  remote_memory: {name: "Remote memory", color: "--kind-W"},
  collective: {name: "Collective or send", color: "--kind-SEND_B"},
  receive: {name: "Waiting for a message", color: "--kind-RECV"},
  message: {name: "Message on its way", color: "--kind-REDUCE"},
  chunk0: {name: "Chunk in a dimension, a colour each", color: "--kind-SEND_F"},
  chunk1: {name: "Chunk in a dimension, a colour each", color: "--kind-B"},
  chunk2: {name: "Chunk in a dimension, a colour each", color: "--kind-R"},
  chunk3: {name: "Chunk in a dimension, a colour each", color: "--kind-U"},
  chunk4: {name: "Chunk in a dimension, a colour each", color: "--kind-E"},
  chunk5: {name: "Chunk in a dimension, a colour each", color: "--kind-F"},
};
const kChunkColors = 6;

const kKindNames = Object.keys(kKinds);

// A node of a graph: its name, and its chunk in place of a microbatch.
function parse_node({name, kind, chunk}) {
  const drawn = kind === "chunk" ? kind + chunk % kChunkColors : kind;
  return {text: name, node: true, stage: -1, kind: drawn, number: kKindNames.indexOf(drawn), microbatch: chunk};
}

// "0SEND_F1" -> {stage: 0, kind: "SEND_F", number: 4, microbatch: 1}: `number` is the kind's place in
// kKindNames, microbatch -1 means none.
function parse_action(text) {
  if (typeof text === "object") return parse_node(text);
  const parts = /^(\d+)([A-Z_]+)(\d*)$/.exec(text);
  return {text, stage: Number(parts[1]), kind: parts[2], number: kKindNames.indexOf(parts[2]),
          microbatch: parts[3] === "" ? -1 : Number(parts[3])};
}

// Four significant digits are what a comparison within a percent needs.
function significant(value, digits) {
  if (value === 0) return "0";
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(places, 12));
}

// Four significant digits, from a thousand on whole and in groups: "0.7187", "13.75", "3,834".
const figure_text = (value) => Math.abs(value) >= 999.95 ? Math.round(value).toLocaleString("en") : significant(value, 4);

const kTimes = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
function time_parts(ns, digits = 4) {
  if (ns === 0) return ["0", "s"];
  const [unit, scale] = kTimes.find(([, scale]) => Math.abs(ns) >= 0.9995 * scale) || kTimes[3];
  return [significant(ns / scale, digits), unit];
}
const time_text = (ns, digits) => time_parts(ns, digits).join(" ");

// "4.81–4.91 s"
function range_text(from, to) {
  const [a, unit] = time_parts(from, 3), [b, other] = time_parts(to, 3);
  return unit === other ? `${a}–${b}\u00a0${unit}` : `${a} ${unit} – ${b} ${other}`;
}

function scaled(value, units, base) {
  let step = 0;
  while (step + 1 < units.length && Math.abs(value) >= 0.9995 * base) {
    value /= base;
    ++step;
  }
  return significant(value, 3) + " " + units[step];
}
const bytes_text = (bytes) => scaled(bytes, ["B", "KB", "MB", "GB", "TB", "PB"], 1000);
const rate_text = (bytes_per_second) =>
  scaled(bytes_per_second * 8, ["bps", "Kbps", "Mbps", "Gbps", "Tbps"], 1000);

// Signed, with a true minus: "+3.2 %".
function percent_text(share) {
  const digits = Math.abs(share) < 0.0995 ? 1 : 0;
  const text = (Math.abs(share) * 100).toFixed(digits);
  return (Number(text) === 0 ? "" : share < 0 ? "−" : "+") + text + " %";
}

// "3.2 %", for a part of a whole.
const share_text = (share) => significant(share * 100, 2) + " %";

const share3_text = (share) => significant(share * 100, 3) + " %";

const plural = (count, word) => count.toLocaleString("en") + " " + word + (count === 1 ? "" : "s");

function color_of(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

// Of a text on this colour ("#rrggbb"): dark where the colour is lighter than about the middle of what eyes tell
// apart (a luminance of 0.2).
function text_on(fill) {
  const light = [1, 3, 5].map((at) => (parseInt(fill.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.2 ? "#10181f" : "#ffffff";
}

// Redraws when its element changes its width or the theme changes.
function redraw_when_needed(node, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (node.clientWidth === width) return;
    width = node.clientWidth;
    draw();
  }).observe(node);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
