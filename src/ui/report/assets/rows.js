// The intervals of lanes: from the page's text to flat arrays, and the share of pixels that many lanes take.
"use strict";

const kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const kDigitOf = new Uint8Array(128);
for (let i = 0; i < 64; ++i) kDigitOf[kDigits.charCodeAt(i)] = i;

// Calls see(action, start, duration, bytes) for each interval of a row's text (timeline.h).
function read_row(text, see) {
  const said = [0, 0, 0, 0];
  const signed = (n) => n % 2 === 0 ? n / 2 : -(n + 1) / 2;
  for (let at = 0, action = 0, end = 0, bytes = 0; at < text.length;) {
    for (let n = 0; n < 4; ++n) {
      let digit = kDigitOf[text.charCodeAt(at++)], value = digit & 31;
      for (let scale = 32; digit >= 32; scale *= 32) {
        digit = kDigitOf[text.charCodeAt(at++)];
        value += (digit & 31) * scale;
      }
      said[n] = value;
    }
    action += signed(said[0]);
    const start = end + signed(said[1]);
    end = start + said[2];
    if (said[3] > 0) bytes = said[3] - 1;
    see(action, start, said[2], bytes);
  }
}

// Intervals of a lane that do not overlap, in order: flat arrays, as a page may hold a million of them. What a
// person looks at becomes an object, item(i).
class Track {
  constructor(lane, group) {
    this.lane = lane;
    this.group = group;
    this.until = 0;
    this.starts = [];
    this.ends = [];
    this.actions = [];
    this.bytes = [];
    this.marks = [];  // which of the group's iterations
  }
  add(action, start, end, bytes, mark) {
    this.until = end;
    this.actions.push(action);
    this.starts.push(start);
    this.ends.push(end);
    this.bytes.push(bytes);
    this.marks.push(mark);
  }
  finish() {
    const all = this.group.trace.actions;
    this.starts = new Float64Array(this.starts);
    this.ends = new Float64Array(this.ends);
    this.bytes = new Float64Array(this.bytes);
    this.actions = new Uint32Array(this.actions);
    this.marks = new Uint16Array(this.marks);
    this.kinds = new Uint8Array(this.actions.length);
    for (let i = 0; i < this.kinds.length; ++i) this.kinds[i] = all[this.actions[i]].number;
  }
  get length() { return this.starts.length; }
  item(i) {
    const mark = this.group.marks[this.marks[i]];
    return {start: this.starts[i], end: this.ends[i], action: this.group.trace.actions[this.actions[i]], bytes: this.bytes[i],
            after: this.starts[i] - mark.start, iteration: mark.shown, lane: this.lane};
  }
  // For each interval whether a search (parse_search) matches it.
  hits(search) {
    if (this.hits_of !== search) {
      this.hits_of = search;
      const known = new Map();
      this.hit = Uint8Array.from(this.actions, (action, i) => {
        const key = action * 65536 + this.marks[i];
        if (!known.has(key)) known.set(key, Number(search.matches(this.item(i))));
        return known.get(key);
      });
    }
    return this.hit;
  }
}

// What many lanes do, a column of pixels each: of every kind of work the share of lanes and of time that it
// takes there. As exact at every zoom as the intervals are.
class Stack {
  constructor(scale, left, width) {
    Object.assign(this, {scale, left, width});
    this.shares = new Map();  // kind, behind all kinds where it is faded -> a share for each column
  }
  add(track, search) {
    const [from, to] = this.scale.domain();
    const {starts, ends, kinds} = track;
    const hits = search ? track.hits(search) : null;
    const origin = this.scale(0) - this.left, per_ns = this.scale(1) - this.scale(0);
    for (let i = d3.bisectRight(ends, from); i < starts.length && starts[i] < to; ++i) {
      const kind = kinds[i] + (hits && !hits[i] ? kKindNames.length : 0);
      let share = this.shares.get(kind);
      if (!share) this.shares.set(kind, share = new Float32Array(this.width));
      const begin = Math.max(0, origin + starts[i] * per_ns), end = Math.min(this.width, origin + ends[i] * per_ns);
      const first = Math.floor(begin), last = Math.floor(end);
      if (first === last) {
        share[first] += end - begin;
        continue;
      }
      share[first] += first + 1 - begin;
      for (let column = first + 1; column < last; ++column) share[column] += 1;
      if (last < this.width) share[last] += end - last;
    }
  }
  // After the last one: shares of so many lanes, of which no column has more than all.
  finish(lanes) {
    this.kinds = [...this.shares.keys()].sort((a, b) => a - b);
    for (let column = 0; column < this.width; ++column) {
      let sum = 0;
      for (const kind of this.kinds) sum += this.shares.get(kind)[column];
      for (const kind of this.kinds) this.shares.get(kind)[column] /= Math.max(lanes, sum);
    }
    return this;
  }
  // The whole first, then what is left below one kind after the other: no seams between them.
  draw(pen, colors, y, height) {
    const tops = new Float32Array(this.width);
    for (const kind of this.kinds) this.shares.get(kind).forEach((share, column) => { tops[column] += share; });
    for (const kind of [...this.kinds].reverse()) {
      const share = this.shares.get(kind);
      pen.globalAlpha = kind >= kKindNames.length ? kFaded : 1;
      pen.fillStyle = colors.kinds[kind % kKindNames.length].fill;
      if (pen.globalAlpha < 1) this.clear(pen, colors, tops, y, height);
      this.fill(pen, tops, y, height);
      share.forEach((part, column) => { tops[column] -= part; });
    }
    pen.globalAlpha = 1;
  }
  // What shines through is the ground, not the kind above.
  clear(pen, colors, tops, y, height) {
    const {globalAlpha, fillStyle} = pen;
    pen.globalAlpha = 1;
    pen.fillStyle = colors.faint;
    this.fill(pen, tops, y, height);
    Object.assign(pen, {globalAlpha, fillStyle});
  }
  fill(pen, tops, y, height) {
    pen.beginPath();
    pen.moveTo(this.left, y + height);
    for (let column = 0, before = 0; column < this.width; ++column) {
      const top = Math.max(0, tops[column]);
      if (Math.abs(top - before) > 1e-4) {
        pen.lineTo(this.left + column, y + height - before * height);
        pen.lineTo(this.left + column, y + height - top * height);
        before = top;
      }
      if (column === this.width - 1) pen.lineTo(this.left + this.width, y + height - before * height);
    }
    pen.lineTo(this.left + this.width, y + height);
    pen.fill();
  }
}
