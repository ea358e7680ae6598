// Draws the timeline on a canvas: 100,000 intervals must stay fluid, which no tree of elements does.
"use strict";

const kHeights = {axis: 26, title: 34, compute: 28, link: 14, link_least: 28, gap: 6, label: 17, after: 12, block: 7};
// Many rows: lower ones, with labels of one line.
const kDense = {...kHeights, compute: 22, link: 9, link_least: 17, gap: 3};
const kDenseFrom = 12;  // rows of one Trace
// Of very many the labels still fit.
const kPacked = {...kDense, compute: 15, link: 6, link_least: 13, gap: 2, block: 4};
const kPackedFrom = 120;
const kDrawnWhole = 3000;  // pixels: of higher timelines only what is in sight is drawn

// What does one thing at a time; on links and in dimensions several things are under way.
const is_device = (lane) => ["compute", "host", "remote_memory", "collective"].includes(lane.kind);

const kOpener = 16;  // pixels of the triangle before the label of a row that opens

// What the lanes of a folded row do together: ranks where it has some, else links.
function stack_of({members}, scale, left, width, search) {
  const ranks = members.filter(({lane}) => is_device(lane));
  const counted = ranks.length > 0 ? ranks : members;
  const stack = new Stack(scale, left, Math.max(1, Math.floor(width)));
  for (const {tracks} of counted) for (const track of tracks) stack.add(track, search);
  return stack.finish(counted.length);
}

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
    const [top, bottom] = this.sight();
    for (const group of this.view.groups) {
      this.draw_title(pen, group);
      for (const entry of group.lanes) {
        if (entry.top < bottom && entry.top + entry.height > top) this.draw_lane(pen, entry);
      }
      this.draw_cuts(pen, group);
      this.draw_marks(pen, group);
    }
    this.canvas.dataset.drawn = String(Number(this.canvas.dataset.drawn || 0) + 1);
  }

  // From where to where the canvas is to be drawn: what is in sight, and as much above and below.
  sight() {
    if (this.height <= kDrawnWhole) return [0, this.height];
    const top = -this.canvas.getBoundingClientRect().top;
    return [top - innerHeight, top + 2 * innerHeight];
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
    const title = shortened(pen, this.title_of(group) + this.scale_of(group), this.canvas.clientWidth - left);
    pen.fillText(title, left, y + 0.5);
    this.title_end = left + pen.measureText(title).width;
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
    const {lane, top, height, row, tracks, opens} = entry;
    pen.fillStyle = this.colors.faint;
    pen.fillRect(this.gutter, top, this.plot_width, height);
    this.draw_label(pen, entry);
    pen.save();
    pen.beginPath();
    pen.rect(this.gutter, top, this.plot_width, height);
    pen.clip();
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    if (opens) {
      entry.stack = stack_of(entry, this.scale, this.gutter, this.plot_width, this.search);
      entry.stack.draw(pen, this.colors, top, height);
    }
    tracks.forEach((track, t) => {
      this.draw_track(pen, track, top + t * row, is_device(lane) ? row : row - 1);
    });
    pen.restore();
  }
  // Wide enough for most labels on one line, and never more than a quarter of the page.
  gutter_width(pen, width) {
    const needs = this.view.groups.flatMap((group) => group.lanes).map(({lane, opens}) => {
      pen.font = kFont(13, 550);
      const label = pen.measureText(lane.label).width + (opens ? kOpener : 0);
      pen.font = kFont(12);
      return label + 8 + pen.measureText(lane.detail).width + 16;
    });
    return Math.round(Math.min(d3.max([178, ...needs]), Math.max(178, width / 4)));
  }
  // On one line where there is room for both or for one line alone; neither runs into the other, or into the plot.
  draw_label(pen, {lane, top, height, opens, is_open, block}) {
    const y = this.narrow ? top - kHeights.label / 2 + 1 : top + height / 2;
    const left = opens ? kOpener : 0;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    if (opens) this.draw_opener(pen, y, is_open, block === this.at_block);
    const room = (this.narrow ? this.plot_width : this.gutter - 12) - left;
    pen.font = kFont(13, 550);
    pen.fillStyle = this.colors.ink;
    const width = pen.measureText(lane.label).width;
    pen.font = kFont(12);
    const detail = pen.measureText(lane.detail).width;
    const one_line = this.narrow || !lane.detail || height < 26 || width + 8 + detail <= room;
    pen.font = kFont(13, 550);
    // Of two that share a line without room for both, each gets at least what the other leaves, and half.
    const label_room = !lane.detail || !one_line ? room : Math.max(room / 2 - 4, room - 8 - detail);
    const label = shortened(pen, lane.label, label_room);
    pen.fillText(label, left, one_line ? y : y - 6.5);
    const after = one_line ? left + pen.measureText(label).width + 8 : left;
    pen.font = kFont(12);
    pen.fillStyle = this.colors.soft;
    pen.fillText(shortened(pen, lane.detail, left + room - after), after, one_line ? y : y + 7.5);
  }
  // A triangle that points to the side, or down where the row is open.
  draw_opener(pen, y, is_open, chosen) {
    pen.fillStyle = chosen ? this.colors.accent : this.colors.soft;
    pen.beginPath();
    if (is_open) {
      pen.moveTo(0, y - 3);
      pen.lineTo(9, y - 3);
      pen.lineTo(4.5, y + 4);
    } else {
      pen.moveTo(1, y - 5);
      pen.lineTo(8, y);
      pen.lineTo(1, y + 5);
    }
    pen.fill();
  }

  // Bars narrower than a pixel share their column in proportion to their time, so that a view of
  // 100,000 intervals costs a column each and still shows how the time divides.
  draw_track(pen, track, y, height) {
    const {starts, ends, kinds} = track;
    const hits = this.search ? track.hits(this.search) : null;
    const [from, to] = this.scale.domain();
    const columns = new Columns(pen, this.scale, this.colors, y, height);
    const {per_ns, left} = columns;
    pen.font = kFont(height > 16 ? 12 : 10);
    for (let i = d3.bisectRight(ends, from); i < starts.length && starts[i] < to; ++i) {
      const x = left + starts[i] * per_ns, width = (ends[i] - starts[i]) * per_ns;
      const fades = hits !== null && !hits[i];
      if (width < 1) {
        columns.add(kinds[i], ends[i] - starts[i], x, fades);
        continue;
      }
      const color = this.colors.kinds[kinds[i]];
      pen.globalAlpha = fades ? kFaded : 1;
      pen.fillStyle = color.fill;
      pen.fillRect(x, y, width > 4 ? width - 1 : width, height);
      if (width > 14 && height > 9) this.draw_number(pen, track.group.trace.actions[track.actions[i]], x, width, y + height / 2, color);
    }
    columns.flush();
    pen.globalAlpha = 1;
  }
  draw_number(pen, action, x, width, y, color) {
    const {microbatch, kind, node} = action;
    if (node) return this.draw_name(pen, action, x, width, y, color);
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
    let shown = shortened(pen, text, room);
    if (microbatch >= 0 && shown !== text && shown.length < 12) shown = String(microbatch);
    const says_nothing = shown.length < 5 && shown !== text && microbatch < 0;
    if (says_nothing || pen.measureText(shown).width > room + 5) return;
    pen.fillStyle = color.text;
    pen.fillText(shown, (left + right) / 2, y + 0.5);
  }

  // Where the page holds no more of a timeline, which must not look idle.
  draw_cuts(pen, group) {
    group.marks.forEach((mark, m) => {
      if (mark.cut === null) return;
      const next = group.marks[m + 1];
      const left = Math.max(this.gutter, this.scale(mark.cut));
      const right = Math.min(this.gutter + this.plot_width, this.scale(next ? next.start : this.view.end));
      if (right <= left) return;
      pen.save();
      pen.beginPath();
      for (const {top, height} of group.lanes) pen.rect(left, top, right - left, height);
      pen.clip();
      hatch(pen, this.colors, left, group.top, right, group.bottom);
      pen.restore();
      pen.font = kFont(12, 550);
      pen.fillStyle = this.colors.soft;
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      pen.fillText(shortened(pen, "hatched: not in this page", right - Math.max(left, this.title_end) - 16), right - 4, group.top + kHeights.title / 2 + 2);
    });
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
