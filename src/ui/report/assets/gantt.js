// The timeline: where lanes lie, what is visible, and what the mouse, fingers and keys do to it.
"use strict";

class Gantt extends GanttDrawing {
  constructor(canvas, overview, tooltip) {
    super();
    this.canvas = canvas;
    this.tooltip = tooltip;
    this.scale = d3.scale.linear();
    this.search = null;
    this.at_block = null;  // of the folded row that Enter opens
    this.on_toggle = () => {};  // of a folded row, by its block
    this.on_change = () => {};  // of what is visible
    this.overview = new Overview(overview, (from, to) => this.show(from, to));
    this.pointers = new Map();  // those held down: one pans, two pinch
    this.listen();
    redraw_when_needed(canvas, () => this.resize());
  }

  // A new view starts whole.
  set_view(view) {
    this.view = view;
    this.resize();
    this.whole();
  }
  set_search(search) {
    this.search = search;
    this.request();
  }

  // ---- zooming: the scale's domain is what is visible, in ns ----

  show(from, to) {
    const end = this.view.end;
    const span = Math.min(Math.max(to - from, end * 1e-6, 1), end);
    const start = Math.min(Math.max(from, 0), end - span);
    this.scale.domain([start, start + span]);
    this.overview.mark(this.scale.domain());
    this.hide_tooltip();
    this.request();
    this.on_change();
  }
  whole() {
    this.show(0, this.view.end);
  }
  // Keeps the moment `at` where it is.
  zoom_by(factor, at = d3.mean(this.scale.domain())) {
    const [from, to] = this.scale.domain();
    this.show(at - (at - from) / factor, at + (to - at) / factor);
  }
  pan_by(share) {
    const [from, to] = this.scale.domain();
    this.show(from + share * (to - from), to + share * (to - from));
  }

  // ---- layout ----

  resize() {
    if (!this.view || !this.canvas.clientWidth) return;
    const width = this.canvas.clientWidth;
    const domain = this.scale.domain();
    this.narrow = width < 640;
    const rows = d3.max(this.view.groups, (group) => group.lanes.length);
    const heights = rows > kPackedFrom ? kPacked : rows > kDenseFrom ? kDense : kHeights;
    this.gutter = this.narrow ? 0 : this.gutter_width(this.canvas.getContext("2d"), width);
    this.plot_width = width - this.gutter - 1;
    this.scale.range([this.gutter, this.gutter + this.plot_width]);
    let y = kHeights.axis;
    for (const group of this.view.groups) {
      group.top = y;
      y += kHeights.title;
      let block = group.lanes.length > 0 ? group.lanes[0].block : undefined;
      for (const entry of group.lanes) {
        if (entry.block !== block) y += heights.block;
        block = entry.block;
        if (this.narrow) y += heights.label;
        const compute = is_device(entry.lane);
        // What stands for many is not lower where many others are open.
        const own = entry.opens ? kDense : heights;
        entry.row = compute ? own.compute : own.link;
        entry.top = y;
        entry.height = Math.max(1, entry.tracks.length) * entry.row;
        // Beside its label there is room for a whole bar.
        if (!compute && !this.narrow) entry.height = Math.max(entry.height, own.link_least);
        if (entry.tracks.length <= 1) entry.row = entry.height;
        y += entry.height + heights.gap;
      }
      group.bottom = y;
      y += kHeights.after;
    }
    this.height = y;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.style.height = y + "px";
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(y * ratio);
    this.ratio = ratio;
    this.overview.set_view(this.view, this.gutter);
    if (this.domain_of === this.view) this.show(domain[0], domain[1]);
    this.domain_of = this.view;
  }

  // ---- looking closer ----

  // The row, with its label, and its group.
  row_at(y) {
    const label = this.narrow ? kHeights.label : 0;
    for (const group of this.view.groups) {
      const entry = group.lanes.find(({top, height}) => y >= top - label && y < top + height);
      if (entry) return {entry, group};
    }
    return null;
  }
  // What is to be said of a place: nodes of the tooltip, or null.
  words_at(x, y) {
    const {entry, group} = this.row_at(y) || {};
    if (x < this.gutter || !entry || y < entry.top) return null;
    const at = this.scale.invert(x);
    if (group.marks.some((mark, m) => mark.cut !== null && at >= mark.cut && !(group.marks[m + 1] && at >= group.marks[m + 1].start))) return null;
    if (entry.opens) return entry.stack ? describe_fold(entry, group.trace, at, Math.min(entry.stack.width - 1, Math.floor(x - this.gutter))) : null;
    const track = entry.tracks[Math.floor((y - entry.top) / entry.row)];
    if (!track) return null;
    const slack = this.scale.invert(x + 1.5) - at;
    const i = d3.bisectRight(track.ends, at - slack);
    return i < track.length && track.starts[i] <= at + slack ? describe_item(track.item(i), group.trace) : null;
  }
  hover(x, y) {
    const {entry} = this.row_at(y) || {};
    this.canvas.classList.toggle("opens", Boolean(entry && entry.opens));
    const words = this.words_at(x, y);
    if (!words) return this.hide_tooltip();
    this.tooltip.replaceChildren(...words);
    this.tooltip.hidden = false;
    const box = this.tooltip.getBoundingClientRect();
    const left = x + 16 + box.width > this.canvas.clientWidth ? Math.max(0, x - 16 - box.width) : x + 16;
    this.tooltip.style.left = left + "px";
    this.tooltip.style.top = y + 16 + "px";
  }
  hide_tooltip() {
    this.tooltip.hidden = true;
  }

  // ---- mouse, touch and keys ----

  listen() {
    const on = (type, act) => this.canvas.addEventListener(type, act.bind(this), {passive: false});
    on("wheel", this.wheel);
    on("pointerdown", this.pointer_down);
    on("pointermove", this.pointer_move);
    on("pointerup", this.pointer_up);
    on("pointercancel", this.pointer_up);
    on("pointerleave", this.hide_tooltip);
    on("dblclick", this.whole);
    on("keydown", this.key);
    addEventListener("scroll", () => { if (this.height > kDrawnWhole) this.request(); }, {passive: true});
  }
  place_of(event) {
    const box = this.canvas.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  }
  wheel(event) {
    if (event.ctrlKey || event.metaKey) return;
    const [from, to] = this.scale.domain();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.pan_by(event.deltaX / this.plot_width);
    } else if (event.deltaY > 0 && to - from >= this.view.end) {
      return;  // at the widest view, the page scrolls
    } else {
      const lines = event.deltaMode ? 40 : 1;
      this.zoom_by(Math.pow(2, -event.deltaY * lines * 0.003), this.scale.invert(this.place_of(event).x));
    }
    event.preventDefault();
  }
  pointer_down(event) {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.place_of(event).x);
    this.pressed = this.place_of(event);
    this.canvas.classList.add("dragging");
  }
  pointer_move(event) {
    const {x, y} = this.place_of(event);
    const before = this.pointers.get(event.pointerId);
    if (before === undefined) return this.hover(x, y);
    const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId);
    if (other) {
      const apart = Math.max(8, Math.abs(x - other[1])) / Math.max(8, Math.abs(before - other[1]));
      this.zoom_by(apart, this.scale.invert(other[1]));
    } else {
      this.pan_by((before - x) / this.plot_width);
    }
    this.pointers.set(event.pointerId, x);
    return undefined;
  }
  pointer_up(event) {
    this.pointers.delete(event.pointerId);
    this.canvas.classList.remove("dragging");
    if (event.type !== "pointerup") return;
    const {x, y} = this.place_of(event);
    const {entry} = this.row_at(y) || {};
    if (entry && entry.opens && this.pressed && Math.hypot(x - this.pressed.x, y - this.pressed.y) < 4) this.toggle(entry.block);
    this.hover(x, y);
  }
  toggle(block) {
    this.at_block = block;
    this.on_toggle(block);
  }
  // The folded row above or below the chosen one.
  choose_block(by) {
    const blocks = this.view.groups[0].lanes.filter((entry) => entry.opens).map((entry) => entry.block);
    const at = blocks.indexOf(this.at_block);
    this.at_block = blocks[at < 0 ? 0 : Math.min(blocks.length - 1, Math.max(0, at + by))];
    this.request();
  }
  key(event) {
    const act = {
      ArrowLeft: () => this.pan_by(-0.2), ArrowRight: () => this.pan_by(0.2),
      "+": () => this.zoom_by(1.5), "=": () => this.zoom_by(1.5), "-": () => this.zoom_by(1 / 1.5),
      "0": () => this.whole(), Escape: () => this.hide_tooltip(),
      ...(folds ? {ArrowUp: () => this.choose_block(-1), ArrowDown: () => this.choose_block(1),
                   Enter: () => this.at_block && this.toggle(this.at_block)} : {}),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }
}
