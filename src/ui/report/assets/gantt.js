// The timeline: where lanes lie, what is visible, and what the mouse, fingers and keys do to it.
"use strict";

class Gantt extends GanttDrawing {
  constructor(canvas, overview, tooltip) {
    super();
    this.canvas = canvas;
    this.tooltip = tooltip;
    this.scale = d3.scale.linear();
    this.search = null;
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
    this.dense = this.view.groups.some((group) => group.lanes.length > kDenseFrom);
    const heights = this.dense ? kDense : kHeights;
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
        entry.row = compute ? heights.compute : heights.link;
        entry.top = y;
        entry.height = Math.max(1, entry.tracks.length) * entry.row;
        // Beside its label there is room for a whole bar.
        if (!compute && !this.narrow) entry.height = Math.max(entry.height, heights.link_least);
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

  item_at(x, y) {
    if (x < this.gutter) return null;
    for (const group of this.view.groups) {
      for (const entry of group.lanes) {
        if (y < entry.top || y >= entry.top + entry.height) continue;
        const track = entry.tracks[Math.floor((y - entry.top) / entry.row)];
        if (!track) return null;
        const slack = this.scale.invert(x + 1.5) - this.scale.invert(x);
        const item = track.items[d3.bisectRight(track.ends, this.scale.invert(x) - slack)];
        return item && item.start <= this.scale.invert(x) + slack ? {item, trace: group.trace} : null;
      }
    }
    return null;
  }
  hover(x, y) {
    const found = this.item_at(x, y);
    if (!found) return this.hide_tooltip();
    this.tooltip.replaceChildren(...describe_item(found.item, found.trace));
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
    if (event.type === "pointerup") this.hover(this.place_of(event).x, this.place_of(event).y);
  }
  key(event) {
    const act = {
      ArrowLeft: () => this.pan_by(-0.2), ArrowRight: () => this.pan_by(0.2),
      "+": () => this.zoom_by(1.5), "=": () => this.zoom_by(1.5), "-": () => this.zoom_by(1 / 1.5),
      "0": () => this.whole(), Escape: () => this.hide_tooltip(),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }
}
