// The strip above the timeline: everything at once, and a window over what the timeline shows.
"use strict";

class Overview {
  constructor(box, choose) {
    this.box = box;
    this.canvas = box.appendChild(element("canvas", {"aria-hidden": "true"}));
    this.svg = d3.select(box).append("svg").attr("aria-hidden", "true");
    this.scale = d3.scale.linear();
    this.brush = d3.svg.brush().x(this.scale).on("brush", () => {
      const [from, to] = this.brush.empty() ? this.scale.domain() : this.brush.extent();
      choose(from, to);
    });
    this.window = this.svg.append("g").attr("class", "brush");
  }
  set_view(view, gutter) {
    this.view = view;
    const width = this.box.clientWidth;
    this.scale.domain([0, view.end]).range([gutter, width - 1]);
    this.window.call(this.brush);
    this.window.selectAll("rect").attr("y", 0).attr("height", this.box.clientHeight);
    this.draw(width, this.box.clientHeight);
  }
  mark([from, to]) {
    const whole = from <= 0 && to >= this.scale.domain()[1];
    if (whole) this.brush.clear();
    else this.brush.extent([from, to]);
    this.window.call(this.brush);
  }
  draw(width, height) {
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext("2d");
    const colors = read_colors();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    // Of many lanes those of ranks alone: below two pixels each, nothing would be seen of any.
    // Where they are folded, those that stand for many: what is opened changes nothing here.
    const all = this.view.groups.map((group) => folds ? group.lanes.filter((entry) => entry.opens) : group.lanes);
    const dense = folds || all.some((lanes) => lanes.length > kDenseFrom);
    const shown = dense ? all.map((lanes) => lanes.filter(({lane}) => is_device(lane))) : all;
    const row = height / (d3.sum(shown, (lanes) => lanes.length) + shown.length - 1);
    let y = 0;
    this.view.groups.forEach((group, g) => {
      const top = row * d3.sum(shown.slice(0, g), (lanes) => lanes.length + 1);
      group.marks.forEach((mark, m) => {
        if (mark.cut === null) return;
        const next = group.marks[m + 1];
        const left = this.scale(mark.cut), right = this.scale(next ? next.start : this.view.end);
        const bottom = top + row * shown[g].length;
        pen.save();
        pen.beginPath();
        pen.rect(left, top, right - left, bottom - top);
        pen.clip();
        hatch(pen, colors, left, top, right, bottom);
        pen.restore();
      });
    });
    for (const lanes of shown) {
      for (const entry of lanes) {
        if (entry.opens) {
          const [left, right] = this.scale.range();
          stack_of(entry, this.scale, left, right - left, null).draw(pen, colors, y, Math.max(row - 1, 0.5));
        }
        for (const track of entry.tracks) this.draw_track(pen, track, y, Math.max(row - 1, 0.5), colors);
        y += row;
      }
      y += row;
    }
  }
  draw_track(pen, {starts, ends, kinds}, y, height, colors) {
    const columns = new Columns(pen, this.scale, colors, y, height);
    const {per_ns, left} = columns;
    for (let i = 0; i < starts.length; ++i) {
      const x = left + starts[i] * per_ns, width = (ends[i] - starts[i]) * per_ns;
      if (width < 1) {
        columns.add(kinds[i], ends[i] - starts[i], x, false);
        continue;
      }
      pen.fillStyle = colors.kinds[kinds[i]].fill;
      pen.fillRect(x, y, width, height);
    }
    columns.flush();
  }
}
