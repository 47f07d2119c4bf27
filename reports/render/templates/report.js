"use strict";
// Sorting stays within the groups of a table; an empty value goes last either way.
const value = (row, index) => row.cells[index].dataset.v ?? row.cells[index].textContent.trim();
function compare(a, b) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const [x, y] = [Number(a), Number(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
}
for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const table = head.closest("table");
    const descending = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    for (const body of table.tBodies) {
      const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
      const order = (a, b) => {
        const [x, y] = [value(a, head.cellIndex), value(b, head.cellIndex)];
        return x === "" || y === "" || !descending ? compare(x, y) : compare(y, x);
      };
      body.append(...rows.sort(order));
    }
  });
}
const filter = document.querySelector("#filter");
filter?.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/);
  for (const row of document.querySelectorAll("#runs tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
});
// The page of a run, drawn from data when the address names it; all of it goes in as text.
const data = JSON.parse(document.querySelector("#run-data").textContent);
const [page, report, title] = [document.querySelector("#page"), document.querySelector("#report"), document.title];
function make(name, text = "", attributes = {}, space = "http://www.w3.org/1999/xhtml") {
  const element = document.createElementNS(space, name);
  element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
function section(name, ...inside) {
  const made = make("section");
  made.append(make("h2", name), ...inside);
  return made;
}
function list(facts) {
  const made = make("dl");
  for (const [label, text] of facts) {
    const pair = make("div", "", text.length > 60 ? { class: "long" } : {});
    pair.append(make("dt", label), make("dd", text));
    made.append(pair);
  }
  return made;
}
function grid(heads, rows) {
  const [made, head, body] = [make("table"), make("thead"), make("tbody")];
  const line = (name, cells) => {
    const row = make("tr");
    row.append(...cells.map((cell) => make(name, cell ?? "–", name === "th" ? { scope: "col" } : {})));
    return row;
  };
  head.append(line("th", heads));
  body.append(...rows.map((row) => line("td", row)));
  made.append(head, body);
  const scroll = make("div", "", { class: "scroll", tabindex: "0", role: "region", "aria-label": heads.join(", ") });
  scroll.append(made);
  return scroll;
}
function chart(epochs, series) {
  const svg = (name, text, attributes) => make(name, text, attributes, "http://www.w3.org/2000/svg");
  const known = series.flatMap(([, values]) => values.filter((x) => x !== null));
  const [low, high, first, last] = [Math.min(...known), Math.max(...known), epochs[0], epochs.at(-1)];
  const x = (epoch) => 52 + (300 * (epoch - first)) / (last - first || 1);
  const y = (value) => 170 - (150 * (value - low)) / (high - low || 1);
  const names = series.map(([name]) => name).join(", ");
  const alt = `${names} by epoch ${first} to ${last}, between ${low} and ${high}`;
  const drawing = svg("svg", "", { viewBox: "0 0 372 205", role: "img", "aria-label": alt });
  drawing.append(svg("path", "", { class: "axis", d: "M52 12V170H360" }));
  for (const value of new Set([low, high])) drawing.append(svg("text", String(Number(value.toPrecision(3))), { x: 46, y: y(value) + 4, "text-anchor": "end" }));
  for (const epoch of new Set([first, last])) drawing.append(svg("text", String(epoch), { x: x(epoch), y: 188, "text-anchor": "middle" }));
  drawing.append(svg("text", "epoch", { x: 202, y: 200, "text-anchor": "middle" }));
  series.forEach(([, values], place) => {
    const points = values.flatMap((value, i) => (value === null ? [] : [`${x(epochs[i]).toFixed(1)},${y(value).toFixed(1)}`]));
    drawing.append(svg("polyline", "", { class: place ? "line dashed" : "line", points: points.join(" ") }));
  });
  const figure = make("figure");
  const told = series.length > 1 ? `${series[0][0]} (solid), ${series[1][0]} (dashed)` : names;
  figure.append(drawing, make("figcaption", told));
  return figure;
}
function curves({ epoch, ...series }) {
  const entries = Object.entries(series);
  const losses = entries.filter(([name]) => name.endsWith(" loss"));
  const others = entries.filter(([name]) => !name.endsWith(" loss"));
  const figures = make("div", "", { class: "figures small" });
  figures.append(...[losses, ...others.map((one) => [one])].filter((x) => x.length).map((x) => chart(epoch, x)));
  const numbers = make("details");
  const rows = epoch.map((one, i) => [one, ...entries.map(([, values]) => values[i])]);
  numbers.append(make("summary", "as numbers"), grid(["epoch", ...entries.map(([name]) => name)], rows));
  return section("Learning curves", figures, numbers);
}
function draw(run) {
  const same = data.runs.filter((other) => other.entry === run.entry && other.dataset === run.dataset);
  const links = make("nav", "", { "aria-label": "Runs" });
  const back = same.length && document.querySelector(`#runs a[href="#run-${run.key}"]`)?.closest("tbody").id;
  links.append(make("a", "← report", { href: `#${back || "results"}` }));
  for (const other of same) {
    const current = other === run ? { "aria-current": "page" } : {};
    links.append(make("a", `seed ${other.seed}`, { href: `#run-${other.key}`, ...current }));
  }
  const state = make("p", "", { class: "facts-line" });
  state.append(make("span", run.state, { class: run.state === "done" ? "done" : "state" }), ` · run ${run.key}`);
  const head = make("h1", `${run.entry} · ${run.dataset} · seed ${run.seed}`, { tabindex: "-1" });
  page.replaceChildren(links, head, state);
  if (run.why) page.append(make("p", run.why, { class: "why" }));
  if (run.curve) page.append(curves(run.curve));
  const facts = data.labels[run.labels].map((label, i) => [label, run.facts[i]]);
  if (facts.length) page.append(section("Result and cost", list(facts)));
  if (run.earlier) page.append(section("Earlier attempts", grid(["Attempt", "Ended", "Cause", "Time", "Log"], run.earlier)));
  for (const place of run.shared) page.append(section(data.shared[place][0], list(data.shared[place][1])));
  return head;
}
function route() {
  const key = location.hash.startsWith("#run-") && location.hash.slice(5);
  const run = key && data.runs.find((one) => one.key === key);
  const was = report.hidden;
  page.hidden = !run;
  report.hidden = Boolean(run);
  document.title = run ? `${run.entry}, ${run.dataset}, seed ${run.seed} – ${title}` : title;
  if (run) {
    const head = draw(run);
    scrollTo(0, 0);
    head.focus();
  } else if (was) {
    page.replaceChildren();
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }
}
addEventListener("hashchange", route);
route();
