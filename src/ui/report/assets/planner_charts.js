// Charts of answers: time against cost, bars of parts, and who wins along an axis.
"use strict";

const kColors = ["--kind-F", "--kind-B", "--kind-R", "--kind-SEND_B", "--kind-U", "--kind-SEND_F", "--kind-E", "--kind-W"];
// Who wins somewhere has a colour, in the order of the ranges.
const winners = [...new Set(data.ranges.flatMap(({ranges}) => ranges.map(({row}) => row)))].filter((row) => row > 0);
const row_color = (row) => row > 0 ? kColors[winners.indexOf(row) % kColors.length] : "--idle";

// One unit for all values of an axis: the largest that leaves the highest at one or more.
const kUnits = {
  time: [["days", 86400], ["h", 3600], ["min", 60], ["s", 1], ["ms", 1e-3], ["µs", 1e-6]],
  money: [["M USD", 1e6], ["USD", 1]],
  bytes: [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["KB", 1e3], ["B", 1]],
  count: [["", 1]],
};
function unit_of(kind, highest) {
  const units = kUnits[kind];
  const reach = {days: 2, h: 2, min: 5}, floor = units[units.length - 1];
  const [name, scale] = units.find(([unit, size]) => highest >= (reach[unit] || 0.9995) * size) || floor;
  return {name, scale};
}
const unit_text = (value, unit) => `${figure_text(value / unit.scale)}${unit.name ? "\u00a0" + unit.name : ""}`;

// 1, 2 and 5 times powers of ten, or powers of ten where those are many.
function log_ticks(low, high, most) {
  const powers = d3.range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)) + 1).map((power) => 10 ** power);
  const inside = (list) => list.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  const fine = inside(powers.flatMap((power) => [power, 2 * power, 5 * power]));
  return fine.length <= most ? fine : inside(powers);
}
const tick_text = (value) => value >= 1e6 || (value > 0 && value < 1e-4) ? value.toExponential(0) : value.toLocaleString("en", {maximumSignificantDigits: 4});

class AnswerChart {
  constructor({title, x, y, points, recommended}, choose) {
    Object.assign(this, {points, recommended, choose});
    this.axes = [x, y].map((axis, i) => {
      const values = points.map((point) => i ? point.y : point.x);
      return {...axis, values, unit: unit_of(axis.kind, d3.max(values))};
    });
    this.reading = element("div", {class: "reading"});
    this.root = element("div", {class: "chart"}, this.reading);
    this.svg = d3.select(this.root).append("svg").attr({role: "img", tabindex: 0, "aria-label": title + ": " + points.map((p) => this.words(p)).join("; ")});
    this.svg.on("mousemove", () => this.point(this.nearest(d3.mouse(this.svg.node()))))
        .on("click", () => this.choose(this.nearest(d3.mouse(this.svg.node())).row))
        .on("mouseleave", () => this.rest()).on("blur", () => this.rest())
        .on("focus", () => this.at || this.point(this.by_x()[0])).on("keydown", () => this.key());
    redraw_when_needed(this.root, () => this.draw());
  }

  by_x() { return [...this.points].sort((a, b) => a.x - b.x || a.row - b.row); }
  words(point) {
    const [x, y] = this.axes;
    return `${point.row}. ${point.name}: ${unit_text(point.x, x.unit)}, ${unit_text(point.y, y.unit)}${point.front ? ", on the Pareto front" : ""}${point.row === this.recommended ? ", recommended" : ""}`;
  }

  scale({values, unit}, range) {
    const [low, high] = d3.extent(values, (value) => value / unit.scale);
    if (low > 0 && high / low >= 20) return d3.scale.log().domain([low / 1.3, high * 1.3]).range(range);
    const from = low > 0.6 * high ? low - (high - low) * 0.15 - high * 0.002 : 0;
    return d3.scale.linear().domain([Math.max(0, from), high + (high - from) * 0.08]).range(range);
  }
  draw_axis(axis, scale, orient, count) {
    const [low, high] = scale.domain(), log = scale.base !== undefined;
    return d3.svg.axis().scale(scale).orient(orient).outerTickSize(0).tickFormat(tick_text)
        .tickValues(log ? log_ticks(low, high, count) : scale.ticks(Math.min(count, 6)));
  }

  draw() {
    const width = this.root.clientWidth;
    if (!width) return;
    const height = Math.min(380, Math.max(280, width * 0.42)), margin = {top: 14, right: 26, bottom: 48, left: 70};
    const [x, y] = this.axes;
    this.x = this.scale(x, [margin.left, width - margin.right]);
    this.y = this.scale(y, [height - margin.bottom, margin.top]);
    this.svg.attr({height, viewBox: `0 0 ${width} ${height}`}).selectAll("*").remove();
    const bottom = this.draw_axis(x, this.x, "bottom", Math.max(3, width / 80));
    this.svg.append("g").attr({class: "axis x", transform: `translate(0,${height - margin.bottom})`}).call(bottom);
    const left = this.draw_axis(y, this.y, "left", 6).tickSize(-(width - margin.left - margin.right), 0);
    this.svg.append("g").attr({class: "axis y", transform: `translate(${margin.left},0)`}).call(left);
    const named = ({name, unit}) => `${name}${unit.name ? ` (${unit.name})` : ""}, predicted`;
    this.svg.append("text").attr({class: "axis-name", x: (margin.left + width - margin.right) / 2, y: height - 6, "text-anchor": "middle"}).text(named(x));
    this.svg.append("text").attr({class: "axis-name", "text-anchor": "middle",
      transform: `translate(14,${(margin.top + height - margin.bottom) / 2}) rotate(-90)`}).text(named(y));
    this.draw_points(width, height);
    this.ring = this.svg.append("circle").attr({class: "ring", r: 9}).style("display", "none");
    this.rest();
  }

  place(point) { return [this.x(point.x / this.axes[0].unit.scale), this.y(point.y / this.axes[1].unit.scale)]; }
  nearest([x, y]) {
    const far = (point) => Math.hypot(this.place(point)[0] - x, this.place(point)[1] - y);
    return this.points.reduce((best, point) => far(point) < far(best) ? point : best, this.points[0]);
  }

  draw_points(width, height) {
    const front = this.by_x().filter((point) => point.front).map((point) => this.place(point));
    const stairs = d3.svg.line().interpolate("step-after");
    this.svg.append("path").attr({class: "front", d: stairs(front)});
    const taken = this.points.map((point) => box_at(...this.place(point), 11, 11));
    for (const point of this.points) {
      const [x, y] = this.place(point);
      this.svg.append("circle").attr({class: "answer" + (point.front ? " front" : "") + (point.row === this.recommended ? " best" : ""), cx: x, cy: y, r: point.row === this.recommended ? 7 : 5});
      // Beside its dot where that is free, so that no two overprint.
      const half = 4 + 3.6 * String(point.row).length;
      const tries = [[8 + half, 0], [-8 - half, 0], [0, -15], [0, 15], [6 + half, -12], [-6 - half, -12], [6 + half, 12], [-6 - half, 12]];
      const free = tries.map(([dx, dy]) => box_at(x + dx, y + dy, 2 * half, 14))
        .find((box) => box.left > 0 && box.right < width && box.bottom < height && !taken.some((other) => boxes_meet(other, box, 0)));
      if (!free) continue;
      taken.push(free);
      this.svg.append("text").attr({class: "row-number", x: free.x, y: free.y + 4, "text-anchor": "middle"}).text(point.row);
    }
  }

  rest() {
    const shown = this.chosen || this.recommended;
    this.point(this.points.find((point) => point.row === shown) || this.points[0]);
    this.at = null;
  }
  point(point) {
    this.at = point;
    if (!this.ring) return;
    const [cx, cy] = this.place(point);
    this.ring.attr({cx, cy}).style("display", null);
    this.reading.replaceChildren(this.words(point) + " ", badge("predicted"));
  }
  key() {
    const order = this.by_x(), step = {ArrowLeft: -1, ArrowRight: 1}[d3.event.key];
    if (d3.event.key === "Enter" && this.at) this.choose(this.at.row);
    if (!step) return;
    d3.event.preventDefault();
    const at = Math.max(0, order.indexOf(this.at));
    this.point(order[Math.min(order.length - 1, Math.max(0, at + step))]);
  }
  show(row) {
    this.chosen = row;
    if (this.ring) this.rest();
  }
}

// Bars of parts, one a row, on one scale; what a bar says in colours is said below it in words.
function bars_section(bars, number) {
  const id = number === 0 ? "breakdown" : `breakdown-${number}`, heading = id + "-title";
  const total = ({values}) => d3.sum(values);
  const highest = d3.max(bars.rows, total), unit = unit_of(bars.kind, highest);
  const used = bars.parts.map((_, i) => bars.rows.some(({values}) => values[i] > 0));
  const row = ({row, name, values}) => element("div", {class: "bar-row", "data-row": row || null},
    element("div", {class: "head"}, element("span", {}, (row ? row + ". " : "") + name), element("span", {}, unit_text(total({values}), unit), " ", badge("predicted"))),
    element("div", {class: "bar-room"}, element("div", {class: "bar", style: `width: ${100 * total({values}) / highest}%`},
      values.map((value, i) => value > 0 ? element("span", {title: `${bars.parts[i].name}: ${unit_text(value, unit)}`,
        style: `width: ${100 * value / total({values})}%; background: var(${bars.parts[i].color})`}) : null))),
    values.filter((value) => value > 0).length > 1 ? element("div", {class: "detail"}, values.map((value, i) => value >= 0.005 * total({values})
      ? `${bars.parts[i].name} ${unit_text(value, unit)} (${share3_text(value / total({values}))})` : null).filter((text) => text).join(", ")) : null);
  const legend = bars.parts.filter((_, i) => used[i]).map(({name, color}) =>
    element("li", {}, element("span", {class: "swatch", style: `background: var(${color})`}), name));
  return element("section", {id, "aria-labelledby": heading}, element("h2", {id: heading}, bars.title), bars.rows.map(row),
    element("ul", {class: "legend"}, legend), bars.note ? element("p", {class: "note"}, bars.note) : null);
}

// A strip along a logarithmic axis: the colour of who wins there.
class RangeStrip {
  constructor(data) {
    Object.assign(this, data);
    this.root = element("div", {class: "chart part"}, element("div", {class: "head"}, element("h3", {}, this.title), badge("predicted")));
    const edges = this.ranges.slice(1).map(({from}) => from);
    const known = [...edges, ...(this.here === null ? [] : [this.here])].filter((value) => value > 0);
    const [low, high] = known.length ? d3.extent(known) : [1, 1];
    this.domain = [low / 4, high * 4];
    this.svg = d3.select(this.root).append("svg").attr({role: "img", "aria-label": `${this.title}: ${this.ranges.map((_, i) => this.words(i)).join("; ")}`});
    this.root.append(element("ol", {class: "ranges"}, this.ranges.map((range, i) => element("li", {"data-row": range.row || null},
      element("span", {class: "swatch", style: `background: var(${row_color(range.row)})`}), this.words(i)))));
    redraw_when_needed(this.root, () => this.draw());
  }

  one_text(factor) { return this.one_kind === "time" ? time_text(factor * this.one * 1e9, 3) : rate_text(factor * this.one); }
  words(i) {
    const {from, row, name} = this.ranges[i], to = this.ranges[i + 1]?.from;
    const number = (value) => significant(value, 3) + (this.one === null ? "" : ` (${this.one_text(value)})`);
    const where = from > 0 && to ? `${number(from)} to ${number(to)}` : to ? `below ${number(to)}` : from > 0 ? `from ${number(from)} on` : "everywhere";
    return `${where}: ${row ? row + ". " : ""}${name || "none within the limits"}`;
  }

  draw() {
    const width = this.root.clientWidth;
    if (!width) return;
    const height = 96, margin = 12, top = 18, bottom = 50;
    const x = d3.scale.log().domain(this.domain).range([margin, width - margin]);
    this.svg.attr({height, viewBox: `0 0 ${width} ${height}`}).selectAll("*").remove();
    this.ranges.forEach(({from, row, name}, i) => {
      const left = i === 0 ? margin : x(from), right = i + 1 < this.ranges.length ? x(this.ranges[i + 1].from) : width - margin;
      const part = this.svg.append("g");
      part.append("rect").attr({x: left, y: top, width: Math.max(1.5, right - left), height: bottom - top})
          .style({fill: `var(${row_color(row)})`, stroke: "var(--card)", "stroke-width": right - left > 4 ? 1 : 0});
      part.append("title").text(this.words(i));
      const text = row ? `${row}. ${name}` : "none", short = row ? String(row) : "–";
      const room = (right - left) / 7;
      const shown = text.length < room ? text : short.length + 1 < room ? short : "";
      part.append("text").attr({x: (left + right) / 2, y: (top + bottom) / 2 + 4, "text-anchor": "middle", class: "on-range"})
          .style("fill", row ? text_on(color_of(row_color(row))) : "var(--ink)").text(shown);
    });
    const axis = d3.svg.axis().scale(x).orient("bottom").outerTickSize(0).tickFormat(tick_text)
        .tickValues(log_ticks(...this.domain, Math.max(3, width / 60)));
    this.svg.append("g").attr({class: "axis x", transform: `translate(0,${bottom + 2})`}).call(axis);
    this.svg.append("text").attr({class: "axis-name", x: width / 2, y: height - 8, "text-anchor": "middle"}).text(this.axis);
    if (this.here === null) return;
    const here = x(this.here);
    for (const [y1, y2] of [[4, top], [bottom, bottom + 5]]) this.svg.append("line").attr({class: "here", x1: here, x2: here, y1, y2});
    this.svg.append("text").attr({class: "axis-name", x: here + (here > width * 0.7 ? -5 : 5), y: 13, "text-anchor": here > width * 0.7 ? "end" : "start"}).text(this.one === null ? "the job" : `the job: ${this.one_text(this.here)}`);
  }
}
