"use strict";
// Blue for against, orange for in favour, paper in between: also told apart by people who confuse red and green.
const Colors = (() => {
  const LIGHT = [[8, 64, 129], [67, 147, 195], [166, 206, 227], [255, 255, 255], [253, 200, 132], [230, 126, 34], [150, 62, 0]];
  const DARK = [[140, 205, 255], [60, 140, 205], [24, 70, 112], [14, 17, 20], [112, 58, 14], [214, 118, 36], [255, 190, 120]];
  // The colours of Okabe and Ito, without yellow, which is too pale for lines.
  const SERIES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a6bd1", "#8c8c8c", "#8a5a2b", "#b03a6a"];
  const STEPS = 255;
  const tables = {};

  function table() {
    const name = Theme.isDark() ? "dark" : "light";
    if (tables[name]) return tables[name];
    const stops = Theme.isDark() ? DARK : LIGHT;
    const colors = new Uint8ClampedArray(3 * (2 * STEPS + 1));
    for (let i = 0; i <= 2 * STEPS; i++) {
      const place = (i / (2 * STEPS)) * (stops.length - 1);
      const left = Math.min(stops.length - 2, Math.floor(place));
      for (let c = 0; c < 3; c++) colors[3 * i + c] = stops[left][c] + (place - left) * (stops[left + 1][c] - stops[left][c]);
    }
    return (tables[name] = colors);
  }

  /** Where in the table the colour of a value in [−1, 1] stands. */
  const index = (value) => 3 * Math.round((Math.max(-1, Math.min(1, value)) + 1) * STEPS);

  function rgb(value) {
    const at = index(value);
    return Array.from(table().subarray(at, at + 3));
  }

  const css = (value) => `rgb(${rgb(value).join(" ")})`;

  /** Black or white, whichever is read more easily on the colour of this value. */
  function ink(value) {
    const [red, green, blue] = rgb(value);
    return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#111" : "#fff";
  }

  const variable = (name) => window.getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  return { table, index, css, ink, variable, series: (place) => SERIES[place % SERIES.length] };
})();
