// A click on a head of the leaderboard sorts by that column: the largest numbers first, at a second click the smallest.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("#leaderboard table")) {
    const body = table.tBodies[0];
    const text = (row, i) => row.cells[i].textContent.trim();
    const number = (row, i) => parseFloat(text(row, i).replace("−", "-"));
    table.querySelectorAll("thead th").forEach((head, i) => {
      let down = false;
      head.style.cursor = "pointer";
      head.title = "sort";
      head.tabIndex = 0;
      const sort = () => {
        down = !down;
        const sign = down ? -1 : 1;
        const order = (a, b) => {
          const [x, y] = [number(a, i), number(b, i)];
          if (isNaN(x) && isNaN(y)) return -sign * text(a, i).localeCompare(text(b, i));
          return isNaN(x) ? 1 : isNaN(y) ? -1 : sign * (x - y); // what is not measured stays below
        };
        body.append(...[...body.rows].sort(order));
        table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
    });
  }
});
