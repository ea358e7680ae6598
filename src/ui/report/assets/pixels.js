// Small parts of drawing on a canvas: fonts, colours, ticks, and bars narrower than a pixel.
"use strict";

const kFaded = 0.13;  // what a search does not match
const kFont = (size, weight = 400) => `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;

function line(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

// As much of a text as there is room for, with an ellipsis; "" where that is nothing.
function shortened(pen, text, room) {
  let shown = text, width = pen.measureText(text).width;
  while (width > room && shown.length > 2) {
    // Letters differ in width: a few steps towards what fits.
    shown = text.slice(0, Math.max(0, Math.min(shown.length - 2, Math.floor(shown.length * room / width)))) + "…";
    width = pen.measureText(shown).width;
  }
  return width > room ? "" : shown;
}

function hatch(pen, colors, left, top, right, bottom) {
  pen.fillStyle = colors.paper;
  pen.fillRect(left, top, right - left, bottom - top);
  pen.strokeStyle = colors.line;
  pen.lineWidth = 1;
  for (let x = left - (bottom - top); x < right; x += 8) line(pen, x, bottom, x + bottom - top, top);
}

// Ticks share the unit of the largest one; digits follow the distance between ticks.
function tick_text(tick, step, largest) {
  const [unit, scale] = kTimes.find(([, scale]) => largest >= scale) || kTimes[3];
  const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
  return (tick / scale).toFixed(Math.min(digits, 9)) + " " + unit;
}

function read_colors() {
  const out = {};
  for (const name of ["ink", "soft", "faint", "line", "paper", "accent", "predicted", "emulated", "measured"]) out[name] = color_of("--" + name);
  for (const name of ["predicted", "emulated", "measured"]) out[name + "_wash"] = color_of(`--${name}-wash`);
  out.kinds = kKindNames.map((kind) => {
    const fill = color_of(kKinds[kind].color);
    return {fill, text: text_on(fill)};
  });
  return out;
}

// One column of pixels after the other: the kinds of work in it, stacked by their share of its time.
class Columns {
  constructor(pen, scale, colors, y, height) {
    Object.assign(this, {pen, colors, y, height});
    this.left = scale(0);
    this.per_ns = scale(1) - this.left;
    this.column = -1;
    this.total = 0;
    this.held = new Float64Array(2 * kKindNames.length);  // ns per kind; the second half is faded
  }
  add(kind, duration, x, fades) {
    const column = Math.floor(x);
    if (column !== this.column) this.flush();
    this.column = column;
    const time = Math.max(duration, 1);
    this.held[kind + (fades ? kKindNames.length : 0)] += time;
    this.total += time;
  }
  flush() {
    if (this.total === 0) return;
    // What is there is seen, however short it was.
    const height = Math.min(1, Math.max(this.total * this.per_ns, 0.3)) * this.height;
    let y = this.y + this.height;
    this.held.forEach((time, i) => {
      if (time === 0) return;
      const part = time / this.total * height;
      y -= part;
      this.pen.globalAlpha = i >= kKindNames.length ? kFaded : 1;
      this.pen.fillStyle = this.colors.kinds[i % kKindNames.length].fill;
      this.pen.fillRect(this.column, y, 1, part);
    });
    this.held.fill(0);
    this.total = 0;
  }
}
