// The page of what-ifs: lines of a figure over one axis of the grid, a line per value of another.
"use strict";

const by_id = (id) => document.getElementById(id);
const kRowsMax = 500;   // of the table
const kLinesMax = 24;   // of a chart: three times the colours
const kColors = ["--kind-F", "--kind-B", "--kind-R", "--kind-SEND_B", "--kind-U", "--kind-SEND_F", "--kind-REDUCE", "--kind-C"];
const kDashes = [null, "7 4", "2 3"];

const axes = data.axes;
// "connections": what an axis is called where its whole path would not fit.
const brief_name = (path) => path.split(".").pop();
// Configurations between two values of an axis: the last one varies fastest.
const strides = axes.map((_, i) => axes.slice(i + 1).reduce((product, axis) => product * axis.texts.length, 1));
const configurations = axes.reduce((product, axis) => product * axis.texts.length, 1);
const value_on = (configuration, axis) => Math.floor(configuration / strides[axis]) % axes[axis].texts.length;

const x_axis = axes[data.x];
const rest = axes.map((_, i) => i).filter((i) => i !== data.x && i !== data.by);
const chosen = axes.map(() => 0);  // the value of each axis of `rest`
const line_names = data.by === null ? [""] : axes[data.by].texts.slice(0, kLinesMax)
    .map((text) => axes[data.by].numbers ? `${brief_name(axes[data.by].name)} ${text}` : text);

function cell_text(value) {
  const size = Math.abs(value);
  if (size >= 1e15 || (size < 1e-4 && size > 0)) return value.toExponential(3);
  return Number.isInteger(value) ? value.toLocaleString("en") : figure_text(value);
}

function lines_of(column) {
  return line_names.map((name, line) => {
    const y = x_axis.texts.map((_, i) => {
      const at = axes.map((_, a) => a === data.x ? i : a === data.by ? line : chosen[a]);
      return data.columns[column].cells[at.reduce((sum, value, a) => sum + value * strides[a], 0)];
    });
    return {name, y, color: kColors[line % kColors.length], dash: kDashes[Math.floor(line / kColors.length) % 3]};
  });
}

class SweepChart {
  constructor({title, column}) {
    this.column = column;
    this.title = title;
    this.reading = element("div", {class: "reading"});
    this.root = element("div", {class: "chart"}, element("div", {class: "head"}, element("h3", {}, title),
                        element("span", {}, badge("predicted"))), this.reading);
    this.svg = d3.select(this.root).append("svg").attr({role: "img", tabindex: 0});
    this.svg.on("mousemove", () => this.point(this.nearest(d3.mouse(this.svg.node())[0])))
        .on("mouseleave", () => this.rest()).on("blur", () => this.rest()).on("keydown", () => this.key());
    redraw_when_needed(this.root, () => this.draw());
  }

  // Numbers lie where they belong, the logarithm of those that span decades; other values in order.
  scale(range) {
    const {numbers, texts} = x_axis;
    if (!numbers || new Set(numbers).size < 2) return d3.scale.linear().domain([-0.3, texts.length - 0.7]).range(range);
    const [low, high] = d3.extent(numbers);
    return (low > 0 && high / low >= 30 ? d3.scale.log() : d3.scale.linear()).domain([low, high]).range(range);
  }
  place(i) { return this.x(this.is_list ? i : x_axis.numbers[i]); }
  nearest(pixel) {
    const all = d3.range(x_axis.texts.length);
    return all.reduce((best, i) => Math.abs(this.place(i) - pixel) < Math.abs(this.place(best) - pixel) ? i : best, 0);
  }

  draw() {
    const width = this.root.clientWidth;
    if (!width) return;
    const height = 260, margin = {top: 12, right: 14, bottom: 46, left: 74};
    this.is_list = !x_axis.numbers || new Set(x_axis.numbers).size < 2;
    this.x = this.scale([margin.left, width - margin.right]);
    this.lines = lines_of(this.column);
    const high = d3.max(this.lines, (line) => d3.max(line.y)) || 1;
    this.y = d3.scale.linear().domain([0, high]).nice(5).range([height - margin.bottom, margin.top]);
    this.svg.attr({height, viewBox: `0 0 ${width} ${height}`, "aria-label": this.words()}).selectAll("*").remove();

    this.draw_x_axis(width, height, margin);
    const left = d3.svg.axis().scale(this.y).orient("left").ticks(5)
                     .tickSize(-(width - margin.left - margin.right), 0);
    this.svg.append("g").attr({class: "axis y", transform: `translate(${margin.left},0)`}).call(left);

    for (const {y, color, dash} of this.lines) {
      const path = d3.svg.line().defined((value) => value !== null).x((_, i) => this.place(i)).y((value) => this.y(value));
      this.svg.append("path").attr("d", path(y)).attr("stroke-dasharray", dash)
          .style({fill: "none", stroke: `var(${color})`, "stroke-width": 2, "stroke-linejoin": "round"});
      if (y.length > 60) continue;
      y.forEach((value, i) => value !== null &&
        this.svg.append("circle").attr({cx: this.place(i), cy: this.y(value), r: 3}).style("fill", `var(${color})`));
    }
    this.rule = this.svg.append("line").attr({class: "rule", y1: margin.top, y2: height - margin.bottom}).style("display", "none");
    this.rest();
  }

  // A tick per value, as far as there is room: those that would touch the one before are left out.
  draw_x_axis(width, height, margin) {
    const bottom = height - margin.bottom;
    const group = this.svg.append("g").attr("class", "axis x");
    group.append("line").attr({x1: margin.left, x2: width - margin.right, y1: bottom, y2: bottom});
    let free = -Infinity;
    d3.range(x_axis.texts.length).sort((a, b) => this.place(a) - this.place(b)).forEach((i) => {
      const text = this.is_list ? x_axis.texts[i] : String(x_axis.numbers[i]);
      const x = this.place(i), half = text.length * 3.6;
      if (x - half < free) return;
      free = x + half + 8;
      group.append("line").attr({x1: x, x2: x, y1: bottom, y2: bottom + 5});
      group.append("text").attr({x: Math.min(x, width - half), y: bottom + 19, "text-anchor": "middle"}).text(text);
    });
    group.append("text").attr({x: (margin.left + width - margin.right) / 2, y: height - 6, "text-anchor": "middle"})
        .text((x_axis.name.length * 7 < width - margin.left ? x_axis.name : brief_name(x_axis.name)) +
              (x_axis.unit ? ` (${x_axis.unit})` : ""));
  }

  words() {
    const parts = this.lines.map(({name, y}) => {
      const known = y.filter((value) => value !== null);
      return (name ? name + " " : "") + (known.length ? `from ${cell_text(known[0])} to ${cell_text(known[known.length - 1])}` : "nothing feasible");
    });
    return `${this.title} over ${x_axis.name}: ${parts.join("; ")}`;
  }

  rest() {
    this.at = null;
    if (this.rule) this.rule.style("display", "none");
    this.read(x_axis.texts.length - 1);
  }
  point(i) {
    this.at = i;
    this.rule.attr({x1: this.place(i), x2: this.place(i)}).style("display", null);
    this.read(i);
  }
  read(i) {
    const shown = this.lines.slice(0, 8).map(({name, y}) =>
      (name ? name + ": " : "") + (y[i] === null ? "–" : cell_text(y[i])));
    this.reading.textContent = `at ${x_axis.texts[i]}: ${shown.join(", ")}${this.lines.length > 8 ? ", …" : ""}`;
  }
  key() {
    const step = {ArrowLeft: -1, ArrowRight: 1}[d3.event.key];
    if (!step) return;
    d3.event.preventDefault();
    const last = x_axis.texts.length - 1;
    this.point(Math.min(last, Math.max(0, (this.at === null ? last : this.at) + step)));
  }
}

// Those that can be chosen: not of a single value.
function fill_controls(charts) {
  const controls = by_id("controls");
  const open = rest.filter((axis) => axes[axis].texts.length > 1);
  controls.hidden = open.length === 0;
  const selects = open.map((axis) => {
    const id = `axis-${axis}`;
    const select = element("select", {id}, axes[axis].texts.map((text, i) => element("option", {value: i}, text)));
    controls.append(element("div", {class: "control"}, element("label", {for: id}, axes[axis].name), select));
    return select;
  });
  const draw = () => charts.forEach((chart) => chart.draw());

  // The view in the page's address (view_hash.js): values by their axis, but for the first of each, which the page opens with.
  const read = () => Object.fromEntries(open.map((axis) => [axes[axis].name, chosen[axis] > 0 ? axes[axis].texts[chosen[axis]] : null]));
  const show = (asked) => {
    open.forEach((axis, i) => {
      chosen[axis] = Math.max(0, axes[axis].texts.indexOf(asked[axes[axis].name]));
      selects[i].value = chosen[axis];
    });
    draw();
  };
  show(read_hash());
  const hash = keep_view_in_hash(read, show);
  open.forEach((axis, i) => selects[i].addEventListener("change", () => {
    chosen[axis] = Number(selects[i].value);
    draw();
    hash.changed();
  }));
}

// How a column of an answer is headed and written: "iteration_s" is "iteration (s)".
function column_words(name) {
  if (name === "mfu") return {head: "MFU", scale: 1};
  const [, key, unit] = /^(.*?)(?:(?<!_per)_(s|usd|bytes))?$/.exec(name);
  const words = key.replace(/_per_s$/, "/s").replaceAll("_", " ");
  return unit === "bytes" ? {head: `${words} (GB)`, scale: 1e-9} : {head: unit ? `${words} (${unit === "usd" ? "USD" : unit})` : words, scale: 1};
}

function fill_table() {
  const cell = (tag, text, numeric, wide) => element(tag, {class: numeric ? "number" : wide ? "wraps" : null,
                                                          style: wide ? "min-width:28em" : null}, text);
  // Paths are longer than what stands below them.
  const head = (name, numeric, key) => element("th", {class: numeric ? "number" : null, style: "white-space:normal;min-width:6em", title: key},
    name.split(/(?<=[._])/).flatMap((part) => [part, element("wbr")]));
  const keys = [...axes.map((axis) => axis.name), ...data.columns.map((column) => column.name)];
  const words = data.columns.map((column) => column_words(column.name));
  const names = [...axes.map((axis) => axis.name), ...words.map(({head}) => head)];
  const numeric = [...axes.map((axis) => axis.numbers !== null), ...data.columns.map((column) => column.numeric)];
  const row = (configuration) => [
    ...axes.map((axis, i) => axis.texts[value_on(configuration, i)]),
    ...data.columns.map((column, i) => {
      const value = column.cells[configuration];
      return !column.numeric ? value : value === null ? "–" : cell_text(value * words[i].scale);
    })];
  by_id("table").append(
    element("thead", {}, element("tr", {}, names.map((name, i) => head(name, numeric[i], keys[i])))),
    element("tbody", {}, d3.range(Math.min(configurations, kRowsMax)).map((configuration) =>
      element("tr", {}, row(configuration).map((text, i) => cell("td", text, numeric[i], names[i] === "reason"))))));
  by_id("table-note").textContent = configurations > kRowsMax
    ? `The first ${kRowsMax} of ${configurations.toLocaleString("en")} configurations, all predicted; --out writes the whole table.`
    : "All figures are predicted.";
}

function fill_page() {
  by_id("summary").textContent = data.summary;
  by_id("cards").append(...data.cards.map(({what, figure, detail}) =>
    element("div", {class: "card"}, element("div", {class: "what"}, what, badge("predicted")),
            element("div", {class: "figure"}, figure), element("div", {class: "detail"}, detail))));
  const charts = data.charts.map((chart) => new SweepChart(chart));
  by_id("charts").append(...charts.map((chart) => chart.root));
  fill_controls(charts);
  if (data.by !== null && data.charts.length > 0) {
    by_id("legend").append(...lines_of(data.charts[0].column).map(({name, color, dash}) => {
      const line = d3.select(document.createElementNS("http://www.w3.org/2000/svg", "svg")).attr({width: 26, height: 10});
      line.append("line").attr({x1: 0, x2: 24, y1: 5, y2: 5, "stroke-dasharray": dash}).style({stroke: `var(${color})`, "stroke-width": 2.5});
      return element("li", {}, line.node(), " " + name);
    }));
  }
  const notes = [];
  if (data.by !== null) notes.push(`A line per value of ${axes[data.by].name}` +
    (axes[data.by].texts.length > kLinesMax ? `, the first ${kLinesMax} of ${axes[data.by].texts.length}.` : "."));
  notes.push("Where a line is broken, that configuration is infeasible or cannot be used; the table says why.");
  by_id("charts-note").textContent = notes.join(" ");
  fill_table();
  by_id("inputs-body").append(
    element("pre", {class: "commands"}, data.command),
    element("p", {class: "note"}, "Tombolo " + data.version),
    ...data.notes.map((note) => element("p", {class: "note"}, "Note: " + note)));
}

fill_page();
