// What the timeline shows: rows of the embedded data become tracks, in which nothing overlaps.
"use strict";

const kRowsMax = 6;  // of one lane: messages in flight are drawn beside each other

for (const trace of data.traces) {
  trace.actions = trace.timeline.actions.map(parse_action);
  trace.by_iteration = new Map(trace.timeline.iterations.map((i) => [i.iteration, i]));
}

// Runs of graphs alone: there are no iterations to choose, and nothing is learnt.
const of_graphs = data.traces.every((trace) => trace.graph !== null);

// The last Trace is the one that was performed, where there is one: its iterations are offered.
const main_trace = data.traces[data.traces.length - 1];

// A prediction often holds fewer iterations than the run: later ones are held against its last.
function counterpart(trace, iteration) {
  return trace.by_iteration.get(iteration) || trace.timeline.iterations[trace.timeline.iterations.length - 1];
}

function extent_of(iteration) {
  let end = iteration.duration_ns;
  for (let i = 0; i < iteration.rows.length; i += 5) end = Math.max(end, iteration.rows[i + 2] + iteration.rows[i + 3]);
  return end;
}

// {end, groups: [{trace, lanes: [{lane, tracks}], marks}]} for one iteration, or "all". Iterations
// stand in slots that are as long as the longest of both Traces, so that starts are aligned.
function build_view(choice, arrangement) {
  const chosen = choice === "all" ? main_trace.timeline.iterations.map((i) => i.iteration) : [choice];
  const view = {choice, end: 0, groups: data.traces.map((trace) => new_group(trace))};
  for (const number of chosen) {
    const parts = data.traces.map((trace) => counterpart(trace, number));
    parts.forEach((part, g) => place(view.groups[g], part, number, view.end));
    view.end += Math.max(...parts.map(extent_of));
  }
  for (const group of view.groups) {
    for (const entry of group.lanes) entry.tracks = entry.tracks.map(new_track);
    group.lanes = arrange(group.lanes, arrangement);
  }
  return view;
}

const has_replicas = data.traces.some((trace) => trace.timeline.lanes.some((lane) => lane.replica > 0));

// {by: "stage" or "pipeline", links: whether they are shown}. A block is what belongs together: the
// replicas of a stage, or a pipeline; in runs of graphs a rank.
function arrange(lanes, {by, links}) {
  const shown = lanes.filter((entry) => links || entry.lane.kind !== "link");
  if (of_graphs) for (const entry of shown) entry.block = entry.lane.rank;
  if (!has_replicas) return shown;
  const keys = new Map(shown.map((entry) => {
    const {kind, stage = 0, replica = 0, rank, peer = rank} = entry.lane;
    const link = Number(kind === "link"), back = Number(peer < rank);
    const boundary = stage - back;  // of a link: both directions beside each other
    const block = by === "pipeline" ? [replica] : [link, boundary, back];
    entry.block = block.join();
    return [entry, [...block, ...(by === "pipeline" ? [link, boundary, back] : [replica]), rank]];
  }));
  return shown.sort((a, b) => {
    const x = keys.get(a), y = keys.get(b);
    const differs = x.findIndex((part, i) => part !== y[i]);
    return differs < 0 ? 0 : x[differs] - y[differs];
  });
}

function new_group(trace) {
  const lanes = trace.timeline.lanes.map((lane) => ({lane, tracks: []}));
  return {trace, lanes, marks: []};
}

function place(group, part, number, offset) {
  group.marks.push({number, shown: part.iteration, start: offset, end: offset + part.duration_ns});
  const rows = part.rows;
  for (let i = 0; i < rows.length; i += 5) {
    const start = offset + rows[i + 2];
    const tracks = group.lanes[rows[i]].tracks;
    // The first track that is free again; on a crowded lane the last one is shared.
    let track = tracks.find((t) => t.until <= start);
    if (!track) {
      if (tracks.length < kRowsMax) tracks.push({until: 0, items: []});
      track = tracks[tracks.length - 1];
    }
    track.until = start + rows[i + 3];
    track.items.push({
      start, end: start + rows[i + 3], action: group.trace.actions[rows[i + 1]], bytes: rows[i + 4],
      after: rows[i + 2], iteration: part.iteration, lane: group.lanes[rows[i]].lane,
    });
  }
}

// Items, and beside them in flat arrays what drawing reads of every one of them.
function new_track({items}) {
  return {
    items,
    starts: Float64Array.from(items, (item) => item.start),
    ends: Float64Array.from(items, (item) => item.end),
    kinds: Uint8Array.from(items, (item) => item.action.number),
  };
}

// "0F1" one action, "0F" all of a stage, "B" a kind, "SEND" kinds that begin so, "rank:1", ...,
// "paris" a place, "grad" a part of a node's name, "chunk:3"; several words must all match. Null where nothing is asked.
function parse_search(text) {
  const words = text.trim().split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) return null;
  const tests = words.map((word) => {
    const [, key, value] = /^(\w+):(.*)$/.exec(word) || [];
    if (key) return field_test(key.toLowerCase(), value.toLowerCase());
    const upper = word.toUpperCase(), lower = word.toLowerCase();
    if (/^\d+[A-Z_]+\d+$/.test(upper)) return (item) => item.action.text === upper;
    if (/^\d+[A-Z_]+$/.test(upper)) return (item) => item.action.stage + item.action.kind === upper;
    if (kKinds[upper]) return (item) => item.action.kind === upper;
    return (item) => (item.action.node && item.action.text.toLowerCase().includes(lower)) ||
                     (upper.length > 1 && item.action.kind.startsWith(upper)) ||
                     (item.lane.label + " " + item.lane.detail).toLowerCase().includes(lower);
  });
  const asked = /(?:^|\s)iteration:(\d+)/i.exec(text);
  return {matches: (item) => tests.every((test) => test(item)), iteration: asked ? Number(asked[1]) : null};
}

function field_test(key, value) {
  const read = {
    iteration: (item) => item.iteration,
    stage: (item) => item.action.stage,
    rank: (item) => item.lane.rank,
    pipeline: (item) => item.lane.replica || 0,
    microbatch: (item) => item.action.microbatch,
    chunk: (item) => item.action.node ? item.action.microbatch : -1,
    kind: (item) => item.action.kind.toLowerCase(),
  }[key];
  return read ? (item) => String(read(item)) === value : () => false;
}
