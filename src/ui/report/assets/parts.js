// What pages with one picture have in common: cards above it, tables and inputs below.
"use strict";

const by_id = (id) => document.getElementById(id);

function table_section(table, number) {
  const id = `table-${number}`, heading = id + "-title";
  const cell = (tag, text, i) => element(tag, {class: i > 0 && i <= table.figures ? "number" : null, "data-title": tag === "td" ? table.columns[i] : null}, text);
  return element("section", {id, class: table.given ? "given" : null, "aria-labelledby": heading}, element("h2", {id: heading}, table.title),
    element("div", {class: "scroll"}, element("table", {class: table.columns.length > 3 ? "blocks" : null},
      element("thead", {}, element("tr", {}, table.columns.map((text, i) => cell("th", text, i)))),
      element("tbody", {}, table.rows.map((row) => element("tr", {}, row.map((text, i) => cell("td", text, i))))))),
    table.remark ? element("p", {class: "note"}, table.remark) : null);
}

function fill_parts() {
  by_id("summary").textContent = data.summary;
  by_id("cards").append(...data.cards.map(({what, figure, detail}) =>
    element("div", {class: "card"}, element("div", {class: "what"}, what, badge("predicted")),
            element("div", {class: "figure"}, figure), element("div", {class: "detail"}, detail))));
  by_id("tables").append(...data.tables.map(table_section));
  by_id("inputs-body").append(
    element("pre", {class: "commands"}, data.command),
    element("p", {class: "note"}, "Tombolo " + data.version),
    ...data.notes.map((note) => element("p", {class: "note"}, "Note: " + note)));
}
