// What the timeline says about the bar under the pointer.
"use strict";

function describe_item(item, trace) {
  if (item.action.node) return describe_node(item, trace);
  const kind = kKinds[item.action.kind];
  const link = item.lane.kind === "link", sums = item.action.kind === "REDUCE_GRAD";
  const name = link ? {SEND_F: "Activations", SEND_B: "Gradients"}[item.action.kind] || kind.name : kind.name;
  const rows = [["action", item.action.text]];
  if (item.action.microbatch >= 0) rows.push(["microbatch", String(item.action.microbatch)]);
  rows.push([link ? "link" : "rank", item.lane.label + (item.lane.detail ? " · " + item.lane.detail : "")]);
  rows.push(["iteration", String(item.iteration)]);
  rows.push(["start", "+" + time_text(item.after, 5)]);
  rows.push(["duration", time_text(item.end - item.start)]);
  if (sums) {
    rows.push(["counted", "from this rank's arrival"]);
    if (item.bytes > 0) rows.push(["each rank adds", bytes_text(item.bytes)]);
  } else if (item.bytes > 0) {
    rows.push(["bytes", bytes_text(item.bytes)]);
    const seconds = (item.end - item.start) * 1e-9;
    if (seconds > 0) rows.push(["bytes / duration", rate_text(item.bytes / seconds)]);
  }
  const twin = twin_of(item, trace);
  if (twin) rows.push([twin.trace.provenance, time_text(twin.duration)]);
  return [
    element("div", {class: "title"}, element("span", {}, name), badge_of(trace)),
    element("dl", {}, rows.map(([key, value]) => [element("dt", {}, key), element("dd", {}, value)])),
  ];
}

function describe_node(item, trace) {
  const rows = [["name", item.action.text], ["where", item.lane.label + " · " + item.lane.detail], ["start", "+" + time_text(item.after, 5)],
                ["duration", time_text(item.end - item.start)]];
  if (item.bytes > 0) rows.push(["bytes", bytes_text(item.bytes)]);
  return [
    element("div", {class: "title"}, element("span", {}, kKinds[item.action.kind].name.replace(/,.*/, "")), badge_of(trace)),
    element("dl", {}, rows.map(([key, value]) => [element("dt", {}, key), element("dd", {}, value)])),
  ];
}

// The same work in the other Trace, or null.
function twin_of(item, trace) {
  const other = data.traces.find((t) => t !== trace);
  if (!other) return null;
  const part = counterpart(other, item.iteration);
  let twin = null;
  other.timeline.lanes.forEach((lane, l) => {
    if (is_device(lane) !== is_device(item.lane) || lane.rank !== item.lane.rank || lane.peer !== item.lane.peer) return;
    read_row(part.rows[l], (action, start, duration) => {
      if (!twin && other.actions[action].text === item.action.text) twin = {trace: other, duration};
    });
  });
  return twin;
}

// Of a row that is folded: what its lanes do in the column of pixels under the pointer.
function describe_fold({lane, members, stack, is_open}, trace, at, column) {
  const parts = stack.kinds.map((kind) => [kind % kKindNames.length, stack.shares.get(kind)[column]]).filter(([, share]) => share >= 0.0005);
  const rest = 1 - d3.sum(parts, ([, share]) => share);
  const rows = parts.map(([kind, share]) => [kKinds[kKindNames[kind]].name, share_text(share)]);
  if (is_device(lane) && rest >= 0.0005) rows.push(["nothing computed", share_text(rest)]);
  return [
    element("div", {class: "title"}, element("span", {}, lane.label), badge_of(trace)),
    element("div", {}, `${lane.detail}, around ${time_text(at, 4)}`),
    element("dl", {}, rows.map(([key, value]) => [element("dt", {}, key), element("dd", {}, value)])),
    element("div", {class: "note"}, `Click to ${is_open ? "fold" : `open ${members.length} rows`}.`),
  ];
}
