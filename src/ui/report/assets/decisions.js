// Why what a run may change was changed: a table below the charts of line.js and batch.js.
"use strict";

const kDecisionsShown = 20;

// What of a Trace was changed, how often and why: the newest first.
function decisions_table(trace, {changed, reasons, newest}, what, columns) {
  if (reasons === 0) {
    const text = changed === 0 ? `The ${what} was never changed.` : `The ${what} changed ${plural(changed, "time")}; the Trace does not say why.`;
    return [element("p", {class: "note"}, text)];
  }
  const shown = newest.slice(-kDecisionsShown).reverse();
  const table = table_of([{title: "From", of: ({iteration}) => `iteration ${iteration}`}, ...columns,
                          {title: "Why", class: "wraps", of: ({reason}) => reason}], shown);
  table.querySelector("table").classList.add("blocks");
  const count = shown.length === reasons ? plural(reasons, "decision") : `The newest ${shown.length} of ${plural(reasons, "decision")}`;
  const untold = changed > reasons ? `; the ${what} changed ${plural(changed, "time")}` : "";
  return [element("h3", {class: "part"}, count + untold, " ", badge_of(trace)), element("div", {class: "texts decisions"}, table)];
}
