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
  for (let i = 0; i < part.rows.length; i += 5) {
    const lane = other.timeline.lanes[part.rows[i]];
    if (other.actions[part.rows[i + 1]].text === item.action.text && is_device(lane) === is_device(item.lane) &&
        lane.rank === item.lane.rank && lane.peer === item.lane.peer) {
      return {trace: other, duration: part.rows[i + 3]};
    }
  }
  return null;
}
