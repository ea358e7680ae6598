// Draws the timeline on a canvas: 100,000 intervals must stay fluid, which no tree of elements does.
"use strict";

const kHeights = {axis: 26, title: 34, compute: 28, link: 14, link_least: 28, gap: 6, label: 17, after: 12, block: 7};
// Many rows: lower ones, with labels of one line.
const kDense = {...kHeights, compute: 22, link: 9, link_least: 17, gap: 3};
const kDenseFrom = 12;  // rows of one Trace

// What does one thing at a time; on links and in dimensions several things are under way.
const is_device = (lane) => ["compute", "host", "remote_memory", "collective"].includes(lane.kind);

// What Gantt (gantt.js) lays out: view, scale, gutter, plot_width, height, narrow, search.
class GanttDrawing {
  request() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }
  draw() {
    const pen = this.canvas.getContext("2d");
    this.colors = read_colors();
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.canvas.clientWidth, this.height);
    this.draw_axis(pen);
    for (const group of this.view.groups) {
      this.draw_title(pen, group);
      for (const entry of group.lanes) this.draw_lane(pen, entry);
      this.draw_marks(pen, group);
    }
    this.canvas.dataset.drawn = String(Number(this.canvas.dataset.drawn || 0) + 1);
  }

  draw_axis(pen) {
    const ticks = this.scale.ticks(Math.max(3, Math.floor(this.plot_width / 110)));
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
    pen.font = kFont(12);
    pen.textBaseline = "middle";
    for (const tick of ticks) {
      const x = Math.round(this.scale(tick)) + 0.5;
      pen.strokeStyle = this.colors.faint;
      line(pen, x, kHeights.axis - 4, x, this.height - kHeights.after);
      const text = tick_text(tick, step, this.scale.domain()[1]);
      const half = pen.measureText(text).width / 2;
      pen.fillStyle = this.colors.soft;
      pen.textAlign = "left";
      pen.fillText(text, Math.min(Math.max(x - half, this.gutter), this.canvas.clientWidth - 2 * half), 10);
    }
  }

  draw_title(pen, group) {
    const provenance = group.trace.provenance;
    const y = group.top + kHeights.title / 2 + 2;
    pen.font = kFont(12, 600);
    const width = pen.measureText(provenance).width + 16;
    pen.fillStyle = this.colors[provenance + "_wash"];
    pen.beginPath();
    pen.roundRect(0, y - 10, width, 20, 10);
    pen.fill();
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillStyle = this.colors[provenance];
    pen.fillText(provenance, 8, y + 0.5);
    pen.font = kFont(13);
    pen.fillStyle = this.colors.soft;
    const left = width + 10;
    pen.fillText(this.title_of(group) + this.scale_of(group), left, y + 0.5, this.canvas.clientWidth - left);
  }
  title_of(group) {
    if (this.view.choice === "all") {
      const own = group.marks.filter((mark) => mark.shown === mark.number).length;
      return plural(own, "iteration") + (own < group.marks.length ? ", the last one repeated" : "");
    }
    const mark = group.marks[0];
    if (group.trace.graph) return `${group.trace.name} · ${time_text(group.trace.graph.finish_ns)}`;
    const which = mark.shown === mark.number || this.narrow ? "" : `, as predicted for iteration ${mark.shown}`;
    return `iteration ${mark.number}${which} · ${time_text(mark.end - mark.start)}`;
  }
  // Beside the pill that says "emulated".
  scale_of({trace}) {
    return trace.byte_scale === 1 ? "" : ` · ${scale_text(trace)}`;
  }

  draw_lane(pen, entry) {
    const {lane, top, height, row, tracks} = entry;
    pen.fillStyle = this.colors.faint;
    pen.fillRect(this.gutter, top, this.plot_width, height);
    this.draw_label(pen, entry);
    pen.save();
    pen.beginPath();
    pen.rect(this.gutter, top, this.plot_width, height);
    pen.clip();
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    tracks.forEach((track, t) => {
      this.draw_track(pen, track, top + t * row, is_device(lane) ? row : row - 1);
    });
    pen.restore();
  }
  // Wide enough for most labels on one line, and never more than a quarter of the page.
  gutter_width(pen, width) {
    const needs = this.view.groups.flatMap((group) => group.lanes).map(({lane}) => {
      pen.font = kFont(13, 550);
      const label = pen.measureText(lane.label).width;
      pen.font = kFont(12);
      return label + 8 + pen.measureText(lane.detail).width + 16;
    });
    return Math.round(Math.min(Math.max(178, ...needs), Math.max(178, width / 4)));
  }
  draw_label(pen, {lane, top, height}) {
    const y = this.narrow ? top - kHeights.label / 2 + 1 : top + height / 2;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.font = kFont(13, 550);
    pen.fillStyle = this.colors.ink;
    const width = pen.measureText(lane.label).width;
    const room = this.narrow ? this.plot_width : this.gutter - 12;
    pen.font = kFont(12);
    const one_line = this.dense || width + 8 + pen.measureText(lane.detail).width <= room;
    pen.font = kFont(13, 550);
    pen.fillText(lane.label, 0, one_line || !lane.detail ? y : y - 6.5, room);
    pen.font = kFont(12);
    pen.fillStyle = this.colors.soft;
    const left = one_line ? Math.min(width, room / 2) + 8 : 0;
    pen.fillText(lane.detail, left, one_line ? y : y + 7.5, room - left);
  }

  // Bars narrower than a pixel share their column in proportion to their time, so that a view of
  // 100,000 intervals costs a column each and still shows how the time divides.
  draw_track(pen, {items, starts, ends, kinds}, y, height) {
    const [from, to] = this.scale.domain();
    const columns = new Columns(pen, this.scale, this.colors, y, height);
    const {per_ns, left} = columns;
    pen.font = kFont(height > 16 ? 12 : 10);
    for (let i = d3.bisectRight(ends, from); i < items.length && starts[i] < to; ++i) {
      const x = left + starts[i] * per_ns, width = (ends[i] - starts[i]) * per_ns;
      const fades = this.search !== null && !this.search.matches(items[i]);
      if (width < 1) {
        columns.add(kinds[i], ends[i] - starts[i], x, fades);
        continue;
      }
      const color = this.colors.kinds[kinds[i]];
      pen.globalAlpha = fades ? kFaded : 1;
      pen.fillStyle = color.fill;
      pen.fillRect(x, y, width > 4 ? width - 1 : width, height);
      if (width > 14 && height > 9) this.draw_number(pen, items[i], x, width, y + height / 2, color);
    }
    columns.flush();
    pen.globalAlpha = 1;
  }
  draw_number(pen, item, x, width, y, color) {
    const {microbatch, kind, node} = item.action;
    if (node) return this.draw_name(pen, item.action, x, width, y, color);
    const number = microbatch < 0 ? kKinds[kind].brief || kind : String(microbatch);
    if (pen.measureText(number).width + 4 > width) return;
    // Stays readable while a part of the bar is visible.
    const left = Math.max(x, this.gutter), right = Math.min(x + width, this.gutter + this.plot_width);
    pen.fillStyle = color.text;
    pen.fillText(number, (left + right) / 2, y + 0.5);
    return undefined;
  }
  // A node's name, as much of it as there is room for; of a chunk at least its number.
  draw_name(pen, {text, microbatch}, x, width, y, color) {
    const left = Math.max(x, this.gutter), right = Math.min(x + width, this.gutter + this.plot_width);
    const room = right - left - 6;
    let shown = text, width_shown = pen.measureText(text).width;
    while (width_shown > room && shown.length > 4) {
      // Letters differ in width: a few steps towards what fits.
      shown = text.slice(0, Math.min(shown.length - 2, Math.floor(shown.length * room / width_shown))) + "…";
      width_shown = pen.measureText(shown).width;
    }
    if (microbatch >= 0 && shown !== text && shown.length < 12) shown = String(microbatch);
    const says_nothing = shown.length < 5 && shown !== text && microbatch < 0;
    if (says_nothing || pen.measureText(shown).width > room + 5) return;
    pen.fillStyle = color.text;
    pen.fillText(shown, (left + right) / 2, y + 0.5);
  }

  // Where iterations end: the figure that predictions are about.
  draw_marks(pen, group) {
    pen.strokeStyle = this.colors[group.trace.provenance];
    pen.setLineDash([4, 3]);
    for (const mark of group.marks) {
      const x = Math.round(this.scale(mark.end)) + 0.5;
      if (x < this.gutter || x > this.gutter + this.plot_width + 1) continue;
      line(pen, Math.min(x, this.gutter + this.plot_width), group.top + kHeights.title - 4, Math.min(x, this.gutter + this.plot_width), group.bottom);
    }
    pen.setLineDash([]);
  }
}
