// The page of heat maps: a canvas each, a cell per pair of rows, the bytes under the pointer.
"use strict";

const kFaintest = 0.22;  // of a cell that has hardly any bytes
const kDecades = 4;      // between the faintest and the fullest colour

// What a map shows of one cell: a list of bytes by layer.
function cells_of(map) {
  const cells = new Map();
  for (let i = 0; i < map.cells.length; i += 4) {
    const key = map.cells[i] * map.side + map.cells[i + 1];
    if (!cells.has(key)) cells.set(key, new Array(data.layers.length).fill(0));
    cells.get(key)[map.cells[i + 2]] = map.cells[i + 3];
  }
  return cells;
}

const sum = (list) => list.reduce((a, b) => a + b, 0);

class HeatMap {
  constructor(map) {
    this.map = map;
    this.cells = cells_of(map);
    this.layer = -1;  // all
    this.canvas = element("canvas", {role: "img", tabindex: 0});
    this.reading = element("div", {class: "reading"});
    this.root = element("div", {class: "chart"}, element("div", {class: "head"}, element("h3", {}, map.title)),
                        this.canvas, this.reading);
    this.canvas.addEventListener("pointermove", (event) => this.point(event.offsetX, event.offsetY));
    this.canvas.addEventListener("pointerleave", () => this.rest());
    this.rest();
    redraw_when_needed(this.root, () => this.draw());
  }

  value(bytes) { return this.layer < 0 ? sum(bytes) : bytes[this.layer]; }

  show(layer) {
    this.layer = layer;
    this.draw();
  }

  draw() {
    const width = this.root.clientWidth;
    if (!width) return;
    const {side} = this.map, ratio = devicePixelRatio || 1;
    const left = 52, top = 22;
    this.cell = (width - left - 2) / side;
    Object.assign(this, {left, top, size: this.cell * side});
    const height = top + this.size + 2;
    Object.assign(this.canvas, {width: Math.round(width * ratio), height: Math.round(height * ratio)});
    this.canvas.style.cssText = `width:${width}px;height:${height}px;display:block`;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.fillStyle = color_of("--faint");
    pen.fillRect(left, top, this.size, this.size);
    this.draw_cells(pen, ratio);
    this.draw_groups(pen);
    this.draw_axes(pen, width);
  }

  // Edges of cells stand on whole pixels, so that none is blurred and no background shines between.
  draw_cells(pen, ratio) {
    const colors = data.layers.map((layer) => color_of(layer.color));
    const largest = Math.max(...[...this.cells.values()].map((bytes) => this.value(bytes)), 0);
    const snap = (place) => Math.round(place * ratio) / ratio;
    const gap = this.cell >= 7 ? 1 : 0;
    for (const [key, bytes] of this.cells) {
      const value = this.value(bytes);
      if (value <= 0) continue;
      const row = Math.floor(key / this.map.side), column = key % this.map.side;
      const layer = this.layer < 0 ? bytes.indexOf(Math.max(...bytes)) : this.layer;
      const depth = Math.max(0, 1 + Math.log10(value / largest) / kDecades);
      pen.globalAlpha = kFaintest + (1 - kFaintest) * depth;
      pen.fillStyle = colors[layer];
      const x = snap(this.left + column * this.cell), y = snap(this.top + row * this.cell);
      pen.fillRect(x, y, snap(this.left + (column + 1) * this.cell) - x - gap,
                   snap(this.top + (row + 1) * this.cell) - y - gap);
    }
    pen.globalAlpha = 1;
  }

  // Groups on the diagonal, where there is room to tell them apart.
  draw_groups(pen) {
    const {group, count, per_cell, first} = this.map;
    const width = group / per_cell * this.cell;
    if (group < 2 || width < 5 || group >= count) return;
    pen.strokeStyle = color_of("--ink");
    pen.lineWidth = width > 20 ? 1.25 : 0.6;
    for (let start = Math.floor(first / group) * group; start < first + count; start += group) {
      const from = Math.max(0, (start - first) / per_cell * this.cell);
      const to = Math.min(this.size, (start + group - first) / per_cell * this.cell);
      pen.strokeRect(this.left + from, this.top + from, to - from, to - from);
    }
  }

  draw_axes(pen, width) {
    pen.fillStyle = color_of("--soft");
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const {first, count, per_cell, group} = this.map;
    const unit = group > 1 && count > group ? group : 1;
    const most = Math.max(2, Math.floor(width / 80));
    let step = unit;
    while (count / step > most) step *= 2;
    for (let thing = 0; thing < count; thing += step) {
      const place = thing / per_cell * this.cell;
      const text = String(first + thing);
      pen.textBaseline = "alphabetic";
      pen.textAlign = "left";
      pen.fillText(text, this.left + place, this.top - 6);
      pen.textBaseline = "top";
      pen.textAlign = "right";
      pen.fillText(text, this.left - 8, this.top + place);
    }
  }

  range(index) {
    const {first, count, per_cell} = this.map;
    const from = first + index * per_cell, to = Math.min(from + per_cell, first + count) - 1;
    return from === to ? `${data.thing} ${from}` : `${data.thing}s ${from}–${to}`;
  }

  point(x, y) {
    const column = Math.floor((x - this.left) / this.cell), row = Math.floor((y - this.top) / this.cell);
    if (column < 0 || row < 0 || column >= this.map.side || row >= this.map.side) return this.rest();
    const bytes = this.cells.get(row * this.map.side + column);
    const who = row === column && this.map.per_cell > 1 ? `within ${this.range(row)}`
                                                        : `${this.range(row)} → ${this.range(column)}`;
    const parts = bytes ? bytes.map((value, layer) => [data.layers[layer].name, value]).filter(([, value]) => value > 0) : [];
    this.reading.textContent =
      `${who}: ` + (parts.map(([name, value]) => `${name} ${bytes_text(value)}`).join(", ") || "nothing");
  }

  rest() {
    const {per_cell} = this.map;
    const text = `Rows send, columns receive. ` +
      (per_cell > 1 ? `A cell is ${per_cell} × ${per_cell} ${data.thing}s.` : `A cell is a pair of ${data.thing}s.`);
    this.reading.textContent = text;
    this.canvas.setAttribute("aria-label", `${this.map.title}. ${text}`);
  }
}

function fill_page() {
  fill_parts();

  const maps = data.maps.map((map) => new HeatMap(map));
  by_id("maps").append(...maps.map((map) => map.root));
  const present = data.layers.map((_, i) => data.maps.some((map) => map.cells.some((v, at) => at % 4 === 2 && v === i)));
  const select = by_id("layer");
  select.append(element("option", {value: -1}, "all kinds"));
  data.layers.forEach(({name, color}, i) => {
    if (!present[i]) return;
    select.append(element("option", {value: i}, name));
    by_id("legend").append(element("li", {}, element("span", {class: "swatch", style: `background:var(${color})`}), name));
  });
  const choose = (layer) => {
    select.value = layer;
    maps.forEach((map) => map.show(layer));
  };
  by_id("maps-note").textContent =
    `A cell has the colour of the kind with most bytes; full colour is the largest cell of the map, each ` +
    `step to a tenth is fainter.` +
    (data.maps.some((map) => map.group > 1 && map.group < map.count) ? ` Outlined: the ${data.group}s.` : "");

  // The view in the page's address (view_hash.js): a kind of bytes by its name.
  const read = () => ({show: select.value === "-1" ? null : data.layers[select.value].name});
  const show = (asked) => choose(data.layers.findIndex(({name}, i) => present[i] && name === asked.show));
  show(read_hash());
  const hash = keep_view_in_hash(read, show);
  select.addEventListener("change", () => {
    choose(Number(select.value));
    hash.changed();
  });
}

fill_page();
