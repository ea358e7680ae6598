// What the timeline shows: rows of the embedded data become tracks, in which nothing overlaps.
"use strict";

const kRowsMax = 6;  // of one lane: messages in flight are drawn next to each other

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

// {end, groups: [{trace, all, lanes: [{lane, tracks}], marks}]} for one iteration, or "all". Iterations
// stand in slots that are as long as the longest of both Traces, so that starts are aligned. `all` are the
// lanes with intervals, `lanes` the rows: the same, but for those that are folded.
function build_view(choice, arrangement) {
  const chosen = choice === "all" ? main_trace.timeline.iterations.map((i) => i.iteration) : [choice];
  const view = {choice, end: 0, groups: data.traces.map(new_group)};
  for (const number of chosen) {
    const parts = data.traces.map((trace) => counterpart(trace, number));
    view.end += Math.max(...parts.map((part, g) => place(view.groups[g], part, number, view.end)));
  }
  for (const group of view.groups) {
    for (const entry of group.all) for (const track of entry.tracks) track.finish();
    arrange_group(group, arrangement);
  }
  return view;
}

const has_replicas = data.traces.some((trace) => trace.timeline.lanes.some((lane) => lane.replica > 0));

// Many ranks are folded: a row for a stage, or a pipeline, that opens.
const kFoldFrom = 64;
const kOpenMax = 256;  // rows of an opened one
const rank_lanes = (trace) => trace.timeline.lanes.filter((lane) => lane.kind === "compute");
const folds = has_replicas && !of_graphs && data.traces.some((trace) => rank_lanes(trace).length > kFoldFrom);

// {by: "stage" or "pipeline", links: whether they are shown, open: keys of the folded rows that are open}. A
// block is what belongs together: the replicas of a stage, or a pipeline; in runs of graphs a rank.
function arrange(lanes, {by, links}) {
  const shown = lanes.filter((entry) => links || entry.lane.kind !== "link");
  if (of_graphs) for (const entry of shown) entry.block = entry.lane.rank;
  if (!has_replicas) return shown;
  const stage_of = new Map(lanes.filter(({lane}) => lane.kind === "compute").map(({lane}) => [lane.rank, lane.stage]));
  const keys = new Map(shown.map((entry) => {
    const {kind, stage = 0, replica = 0, rank, peer = rank} = entry.lane;
    // Where links are folded, those to another stage than the next one (of a tied embedding, between replicas) are apart.
    entry.peer_stage = folds ? stage_of.get(peer) : null;
    const link = Number(kind === "link"), back = Number(peer < rank && entry.peer_stage !== stage);
    const boundary = stage - back;  // of a link: both directions next to each other
    const block = by === "pipeline" ? [replica] : [link, boundary, back, ...(folds && link ? [entry.peer_stage] : [])];
    entry.block = block.join(".");
    return [entry, [...block, ...(by === "pipeline" ? [link, boundary, back] : [replica]), rank]];
  }));
  return shown.sort((a, b) => {
    const x = keys.get(a), y = keys.get(b);
    const differs = x.findIndex((part, i) => part !== y[i]);
    return differs < 0 ? 0 : x[differs] - y[differs];
  });
}

function arrange_group(group, arrangement) {
  const lanes = arrange([...group.all], arrangement);
  group.lanes = folds ? fold(lanes, arrangement) : lanes;
}

// A row for every block of several lanes, and below it those lanes where it is open.
function fold(lanes, {by, open}) {
  const blocks = new Map();
  for (const entry of lanes) {
    if (!blocks.has(entry.block)) blocks.set(entry.block, []);
    blocks.get(entry.block).push(entry);
  }
  return [...blocks].flatMap(([block, members]) => {
    if (members.length === 1) return members;
    const row = {block, members, tracks: [], opens: true, is_open: open.has(block), lane: folded_lane(members, by)};
    return row.is_open ? [row, ...members.slice(0, kOpenMax)] : [row];
  });
}

function folded_lane(members, by) {
  const ranks = members.map(({lane}) => lane).filter((lane) => lane.kind === "compute");
  const {kind, stage, replica} = members[0].lane;
  const hidden = members.length > kOpenMax ? `, ${kOpenMax} of them open` : "";
  if (ranks.length === 0) return {kind, label: `stage ${stage} → ${members[0].peer_stage}`, detail: plural(members.length, "link") + hidden};
  const places = [...new Set(ranks.map((lane) => lane.datacenter))];
  const where = places.length > 3 ? plural(places.length, "datacenter") : places.join(", ");
  return {kind, label: by === "pipeline" ? `pipeline ${replica}` : `stage ${stage}`, detail: `${plural(ranks.length, "rank")} · ${where}${hidden}`};
}

function new_group(trace) {
  return {trace, all: trace.timeline.lanes.map((lane) => ({lane, tracks: []})), lanes: [], marks: []};
}

// How long the part takes, with what comes after its iteration.
function place(group, part, number, offset) {
  const mark = group.marks.length;
  let extent = part.duration_ns;
  group.marks.push({number, shown: part.iteration, start: offset, end: offset + part.duration_ns,
                    cut: part.cut_ns === undefined ? null : offset + part.cut_ns});
  group.all.forEach(({lane, tracks}, l) => read_row(part.rows[l], (action, after, duration, bytes) => {
    const start = offset + after;
    // The first track that is free again; on a crowded lane the last one is shared.
    let track = tracks.length > 0 && tracks[0].until <= start ? tracks[0] : tracks.find((t) => t.until <= start);
    if (!track) {
      if (tracks.length < kRowsMax) tracks.push(new Track(lane, group));
      track = tracks[tracks.length - 1];
    }
    track.add(action, start, start + duration, bytes, mark);
    extent = Math.max(extent, after + duration);
  }));
  return extent;
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
