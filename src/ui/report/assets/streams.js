// The page of streams: a row each, a block per operator, its times under the pointer.
"use strict";

const kRowHeight = 40, kLabelWidth = 110, kAxisHeight = 24;
const kLetter = 7;  // pixels of a letter, about

const whole_unit = data.end >= 1000 ? ["ms", 1000, 2] : ["µs", 1, 1];  // of the axis
const on_axis = (value) => `${(value / whole_unit[1]).toFixed(whole_unit[2])} ${whole_unit[0]}`;
const microseconds = (value) => value >= 1000 ? `${(value / 1000).toFixed(2)} ms` : `${value.toFixed(1)} µs`;

class Streams {
  constructor() {
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.svg.setAttribute("role", "img");
    this.svg.setAttribute("aria-label", `${data.rows.join(", ")}: ${data.blocks.length} operators in ${microseconds(data.end)}`);
    this.reading = element("div", {class: "reading"}, "Point at an operator.");
    this.root = element("div", {}, this.svg, this.reading);
    redraw_when_needed(this.root, () => this.draw());
  }

  add(tag, attributes, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    this.svg.append(node);
    return node;
  }

  draw() {
    const width = this.root.clientWidth, height = data.rows.length * kRowHeight + kAxisHeight;
    if (!width) return;
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.style.height = `${height}px`;
    const x = (time) => kLabelWidth + time / data.end * (width - kLabelWidth - 4);
    data.rows.forEach((name, row) => {
      const y = row * kRowHeight;
      this.add("text", {x: 0, y: y + kRowHeight / 2 + 4, fill: color_of("--soft"), "font-size": 13}, name);
      this.add("rect", {x: x(0), y: y + 4, width: x(data.end) - x(0), height: kRowHeight - 8, fill: color_of("--faint")});
    });
    for (const block of data.blocks) this.draw_block(block, x);
    const parts = width - kLabelWidth < 400 ? 2 : 4;  // as many as do not touch
    for (let part = 0; part <= parts; ++part) {
      const time = data.end * part / parts;
      this.add("text", {x: x(time), y: height - 6, fill: color_of("--soft"), "font-size": 12,
                        "text-anchor": part === 0 ? "start" : part === parts ? "end" : "middle"}, on_axis(time));
    }
  }

  draw_block(block, x) {
    const y = block.row * kRowHeight + 4, left = x(block.start), size = Math.max(1, x(block.end) - left - 1);
    const show = () => {
      this.reading.textContent = `${block.name}: ${microseconds(block.start)} to ${microseconds(block.end)}, ` +
        `${microseconds(block.end - block.start)}`;
    };
    this.add("rect", {x: left, y, width: size, height: kRowHeight - 8, rx: 3, fill: color_of(block.color)})
      .addEventListener("pointerenter", show);
    if (size < block.name.length * kLetter + 6) return;
    this.add("text", {x: left + size / 2, y: y + kRowHeight / 2, fill: text_on(color_of(block.color)), "font-size": 12,
                      "text-anchor": "middle", "pointer-events": "none"}, block.name);
  }
}

fill_parts();
by_id("streams").append(new Streams().root);
by_id("legend").append(...data.legend.map(({name, color}) =>
  element("li", {}, element("span", {class: "swatch", style: `background:var(${color})`}), name)));
