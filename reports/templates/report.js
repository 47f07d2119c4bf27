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
