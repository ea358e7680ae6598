// The map of datacenters: a box each, around an ellipse, and the links between them with rate and latency.
//
// Labels keep clear of boxes and of each other. Where all of them have no room the map grows; those that still have none are
// left out, and read under the pointer and in the table of links.
"use strict";

const kGap = 16;           // pixels between two boxes
const kLabelPad = 4;       // around a label
const kMapHeightEnough = 640;  // grown so far for labels, and as far as boxes need
const kMapHeightMax = 1400;

const boxes_meet = (a, b, gap) =>
  a.left < b.right + gap && b.left < a.right + gap && a.top < b.bottom + gap && b.top < a.bottom + gap;
const box_at = (x, y, width, height) =>
  ({left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2, x, y});

class ClusterMap {
  constructor(root, {places, links}) {
    Object.assign(this, {root, places, links});
    this.reading = element("div", {class: "reading"});
    this.plot = element("div", {class: "plot"});
    root.append(this.plot, ...(links.length > 0 ? [this.reading] : []));
    this.svg = d3.select(this.plot).append("svg").attr({role: "img", "aria-label": this.words()});
    this.boxes = places.map(({name, devices, holds}) => element("div", {class: "place" + (holds.length ? "" : " idle")},
      element("strong", {}, name), element("div", {}, devices),
      holds.length ? holds.map((line) => element("div", {class: "holds"}, line)) : element("div", {}, "idle")));
    this.plot.append(...this.boxes);
    redraw_when_needed(root, () => this.draw());
  }

  words() {
    const boxes = this.places.map(({name, devices, holds}) => `${name}, ${devices}: ${holds.join(", ") || "idle"}`);
    return [...boxes, ...this.links.map((link) => this.link_words(link))].join("; ");
  }
  link_words({from, to, rate, latency}) {
    return `${this.places[from].name} – ${this.places[to].name}: ${rate}, ${latency} one way`;
  }

  draw() {
    const width = this.plot.clientWidth;
    if (!width) return;
    const count = this.places.length;
    const widest = Math.max(104, Math.min(220, width / (count > 4 ? 3.7 : 2.6)));
    for (const box of this.boxes) box.style.maxWidth = widest + "px";
    this.sizes = this.boxes.map((box) => [box.offsetWidth, box.offsetHeight]);
    const tallest = d3.max(this.sizes, ([, height]) => height);
    const rx = count === 1 ? 0 : Math.min(width / 2 - d3.max(this.sizes, ([w]) => w) / 2 - 2, 440);
    let ry = count < 3 ? 0 : Math.max(tallest, 0.3 * rx);
    for (;;) {
      this.height = Math.ceil(2 * ry + tallest + 8);
      this.rects = this.boxes_on(width / 2, this.height / 2, rx, ry);
      if (this.height > kMapHeightMax) this.rects = this.boxes_in_columns(width, tallest);
      const crowded = this.rects.some((a, i) => this.rects.some((b, j) => j < i && boxes_meet(a, b, kGap)));
      this.labels = crowded ? [] : this.place_labels();
      const done = !crowded && this.labels.every((label) => label);
      if (done || count < 3 || this.height > kMapHeightMax) break;
      if (this.height > kMapHeightEnough && !crowded) break;
      ry += 20;
    }
    // An odd number leaves room at the bottom.
    this.height = Math.ceil(d3.max(this.rects, (rect) => rect.bottom)) + 4;
    this.paint(width);
  }

  // Two stand next to each other, more begin at the top.
  boxes_on(x, y, rx, ry) {
    const count = this.places.length, first = count === 2 ? -Math.PI : -Math.PI / 2;
    return this.sizes.map(([width, height], i) => {
      const angle = first + 2 * Math.PI * i / count;
      return box_at(x + rx * Math.cos(angle), y + ry * Math.sin(angle), width, height);
    });
  }

  // For windows that are too narrow for an ellipse: down the right side, and up the left.
  boxes_in_columns(width, tallest) {
    const count = this.places.length, rows = Math.ceil(count / 2), step = tallest + 3 * kGap;
    return this.sizes.map(([w, h], i) => {
      const right = i < rows, row = right ? i : count - 1 - i;
      return box_at(right ? width - w / 2 - 2 : w / 2 + 2, (row + 0.5) * step, w, h);
    });
  }

  place_labels() {
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const length = ({from, to}) => Math.hypot(this.rects[from].x - this.rects[to].x, this.rects[from].y - this.rects[to].y);
    const order = d3.range(this.links.length).sort((a, b) => length(this.links[a]) - length(this.links[b]));
    const labels = this.links.map(() => null), taken = [];
    for (const i of order) {
      const {from, to, rate, latency} = this.links[i], a = this.rects[from], b = this.rects[to];
      const width = Math.max(pen.measureText(rate).width, pen.measureText(latency).width) + 2 * kLabelPad;
      for (const at of d3.range(0, 0.42, 0.02).flatMap((off) => off === 0 ? [0.5] : [0.5 - off, 0.5 + off])) {
        const box = box_at(a.x + (b.x - a.x) * at, a.y + (b.y - a.y) * at, width, 34);
        if (this.rects.some((rect) => boxes_meet(rect, box, 2)) || taken.some((other) => boxes_meet(other, box, 2))) continue;
        labels[i] = box;
        taken.push(box);
        break;
      }
    }
    return labels;
  }

  paint(width) {
    this.plot.style.height = this.height + "px";
    this.svg.attr({width, height: this.height, viewBox: `0 0 ${width} ${this.height}`}).selectAll("*").remove();
    this.boxes.forEach((box, i) => {
      box.style.left = this.rects[i].left + "px";
      box.style.top = this.rects[i].top + "px";
    });
    const lines = this.links.map((link) => {
      const a = this.rects[link.from], b = this.rects[link.to], ends = {x1: a.x, y1: a.y, x2: b.x, y2: b.y};
      const both = [link.from, link.to].every((i) => this.places[i].holds.length > 0);
      const group = this.svg.append("g").attr({class: "wan" + (both ? "" : " idle"), tabindex: 0, "aria-label": this.link_words(link)});
      group.append("line").attr(ends);
      group.append("line").attr(ends).attr("class", "near");  // what a pointer can hit
      const say = () => { this.reading.textContent = this.link_words(link); };
      group.on("mouseenter", say).on("focus", say).on("mouseleave", () => this.rest()).on("blur", () => this.rest());
      return group;
    });
    this.labels.forEach((label, i) => {
      if (!label) return;
      const {rate, latency} = this.links[i], group = lines[i].append("g").attr("class", "label");
      group.append("rect").attr({x: label.left, y: label.top, width: label.right - label.left, height: 34, rx: 5});
      group.append("text").attr({x: label.x, y: label.y - 3, "text-anchor": "middle"}).text(rate);
      group.append("text").attr({x: label.x, y: label.y + 12, "text-anchor": "middle"}).text(latency);
      this.svg.node().append(group.node());  // above all lines
      group.on("mouseenter", () => { this.reading.textContent = this.link_words(this.links[i]); })
          .on("mouseleave", () => this.rest());
    });
    this.rest();
  }

  rest() {
    const hidden = this.labels.filter((label) => !label).length;
    this.reading.textContent = hidden > 0
      ? `${hidden} of ${plural(this.links.length, "link")} without a label, for want of room: point at one, or read the table below.` : "";
  }
}
