// Curves over iterations: axes, lines, and the value under the pointer.
"use strict";

// options: {title, badges, series: [{name, provenance, x, y, color, points, steps, dashed}], levels: [{name, y,
// color}], format, axis_format, from_zero}. Levels are values without iterations, such as a prediction; a series of
// steps keeps a value until the next one. Charts below one another also have:
//   height, domain   of all of them; `quiet` ones name no iterations
//   marks            [{x, y}]: places on a curve
//   join             their list, which each adds itself to: what is pointed at in one is shown in all
//   on_point         is told of the iteration that is pointed at; null: none
function line_chart(options) {
  const reading = element("div", {class: "reading"});
  const root = element("div", {class: "chart"},
                       element("div", {class: "head"}, element("h3", {}, options.title),
                               element("span", {}, options.badges)), reading);
  const svg = d3.select(root).append("svg").attr("role", "img").attr("aria-label", describe_chart(options))
                  .attr("tabindex", 0);
  const chart = new LineChart(svg, reading, options);
  redraw_when_needed(root, () => chart.draw(root.clientWidth));
  return root;
}

function describe_chart({title, series, levels, format}) {
  const parts = series.map(({name, y}) => `${name} from ${format(y[0])} to ${format(y[y.length - 1])}`);
  for (const level of levels || []) parts.push(`${level.name} ${format(level.y)}`);
  return `${title}: ${parts.join("; ")}`;
}

class LineChart {
  constructor(svg, reading, options) {
    Object.assign(this, {svg, reading, options});
    // Every iteration that some series has, for the pointer to snap to.
    this.stops = [...new Set(options.series.flatMap((series) => series.x))].sort((a, b) => a - b);
    this.joined = options.join || [];
    this.joined.push(this);
    svg.on("mousemove", () => this.point_all(this.x.invert(d3.mouse(this.svg.node())[0])))
        .on("mouseleave", () => this.rest_all())
        .on("blur", () => this.rest_all())
        .on("keydown", () => this.key());
  }

  draw(width) {
    if (!width) return;
    const {series, levels = []} = this.options;
    const {height = 206, quiet, marks = []} = this.options;
    const margin = {top: 12, right: 10, bottom: quiet ? 10 : 42, left: 64};
    const xs = this.options.domain || d3.extent(this.stops);
    const ys = [...series.flatMap((s) => s.y), ...levels.map((level) => level.y)];
    let [low, high] = d3.extent(ys);
    if (this.options.from_zero) low = Math.min(0, low);
    if (low === high) [low, high] = [low - Math.abs(low) * 0.1 - 1e-12, high + Math.abs(high) * 0.1 + 1e-12];
    this.x = d3.scale.linear().domain(xs[0] === xs[1] ? [xs[0] - 1, xs[1] + 1] : xs)
                 .range([margin.left, width - margin.right]);
    this.y = d3.scale.linear().domain([low, high]).nice(4).range([height - margin.bottom, margin.top]);
    this.svg.attr("height", height).attr("viewBox", `0 0 ${width} ${height}`).selectAll("*").remove();

    const whole = d3.svg.axis().scale(this.x).orient("bottom").ticks(Math.max(2, Math.floor(width / 90)))
                      .tickFormat((n) => Number.isInteger(n) && !quiet ? n : "").outerTickSize(0);
    this.svg.append("g").attr("class", "axis x").attr("transform", `translate(0,${height - margin.bottom})`).call(whole);
    if (!quiet) this.svg.append("text").attr({class: "axis-name", x: (margin.left + width - margin.right) / 2, y: height - 6, "text-anchor": "middle"}).text("iteration");
    const values = d3.svg.axis().scale(this.y).orient("left").ticks(4).tickFormat(this.options.axis_format)
                       .tickSize(-(width - margin.left - margin.right), 0);
    this.svg.append("g").attr("class", "axis y").attr("transform", `translate(${margin.left},0)`).call(values);

    for (const level of levels) {
      this.svg.append("line").attr({x1: this.x.range()[0], x2: this.x.range()[1], y1: this.y(level.y), y2: this.y(level.y)})
          .style({stroke: `var(${level.color})`, "stroke-width": 2, "stroke-dasharray": "6 4"});
    }
    for (const {x, y, color, points, steps, dashed} of series) {
      const path = d3.svg.line().x((_, i) => this.x(x[i])).y((_, i) => this.y(y[i])).interpolate(steps ? "step-after" : "linear");
      this.svg.append("path").attr("d", path(x)).style({fill: "none", stroke: `var(${color})`, "stroke-width": 2, "stroke-linejoin": "round",
                                                        "stroke-dasharray": dashed ? "5 4" : null});
      if (!points && (x.length > 40 || this.options.join)) continue;
      this.svg.append("g").selectAll("circle").data(x).enter().append("circle")
          .attr({cx: (n) => this.x(n), cy: (_, i) => this.y(y[i]), r: points ? 4 : 2.5}).style("fill", `var(${color})`);
    }
    this.marks = this.svg.append("g").selectAll("circle").data(marks).enter().append("circle")
                     .attr({class: "mark", cx: (mark) => this.x(mark.x), cy: (mark) => this.y(mark.y), r: 3.5});
    this.rule = this.svg.append("line").attr({class: "rule", y1: margin.top, y2: height - margin.bottom}).style("display", "none");
    this.rest();
  }

  point_all(iteration) {
    const at = this.nearest(iteration);
    for (const chart of this.joined) chart.point(at);
  }
  rest_all() {
    for (const chart of this.joined) chart.rest();
  }

  // Without a pointer, the chart reads its last values.
  rest() {
    this.at = null;
    if (this.rule) this.rule.style("display", "none");
    this.read(this.stops[this.stops.length - 1]);
    if (this.options.on_point) this.options.on_point(null);
  }
  nearest(iteration) {
    const i = d3.bisectLeft(this.stops, iteration);
    const near = this.stops.slice(Math.max(0, i - 1), i + 1);
    return near.length === 2 && iteration - near[0] < near[1] - iteration ? near[0] : near[near.length - 1];
  }
  point(iteration) {
    this.at = this.nearest(iteration);
    if (this.options.on_point) this.options.on_point(this.at);
    if (!this.x) return;
    const x = this.x(this.at);
    this.rule.attr({x1: x, x2: x}).style("display", null);
    this.read(this.at);
  }
  read(iteration) {
    const {series, levels = [], format} = this.options;
    const words = [];
    for (const {name, x, y} of series) {
      const i = x.indexOf(iteration);
      if (i >= 0) words.push(`${name} ${format(y[i])}`);
    }
    for (const level of levels) words.push(`${level.name} ${format(level.y)}`);
    this.reading.textContent = `iteration ${iteration}: ${words.join(", ")}`;
  }
  key() {
    const step = {ArrowLeft: -1, ArrowRight: 1}[d3.event.key];
    if (!step) return;
    d3.event.preventDefault();
    const at = this.stops.indexOf(this.at === null ? this.stops[this.stops.length - 1] : this.at);
    this.point_all(this.stops[Math.min(this.stops.length - 1, Math.max(0, at + step))]);
  }
}
