"use strict";
// The two charts. They appear when plotly.js has arrived; the pictures do not wait for it.
const Charts = (() => {
  const MARGIN = { l: 52, r: 24, t: 8, b: 36 };
  const SHARES = { range: [0, 1], tickvals: [0, 0.2, 0.4, 0.6, 0.8, 1], tickformat: ".0%" };
  const CONFIG = { displayModeBar: false };
  const GREY = "rgba(128,128,128,0.14)";

  function layout(extra) {
    const axis = { gridcolor: Colors.variable("--line"), zeroline: false, linecolor: Colors.variable("--line"), fixedrange: true, automargin: false };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: MARGIN, showlegend: true, hovermode: "x unified", dragmode: false,
      font: { family: window.getComputedStyle(document.body).fontFamily, size: 12, color: Colors.variable("--ink") },
      hoverlabel: { bgcolor: Colors.variable("--panel"), bordercolor: Colors.variable("--line"), font: { color: Colors.variable("--ink") } },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
      ...extra(axis),
    };
  }

  const line = (name, x, y, color, extra = {}) => ({ name, x, y, type: "scatter", mode: "lines", hovertemplate: "%{y:.3g}", ...extra, line: { color, width: 2, ...extra.line } });

  const wanted = new Map(); // host -> the drawing that it waits for

  /** Draws a chart after the next frame, so that the pictures are seen first. Of several drawings for a host, the last. */
  function afterPictures(host, draw) {
    if (!window.Plotly) return;
    if (!wanted.size) window.requestAnimationFrame(() => window.setTimeout(drawWanted));
    wanted.set(host, draw);
  }

  function drawWanted() {
    const drawings = [...wanted.values()];
    wanted.clear();
    for (const draw of drawings) draw();
  }

  const walk = (host, course) => afterPictures(host, () => drawWalk(host, course));
  const curves = (host, ...given) => afterPictures(host, () => drawCurves(host, ...given));

  /** Score and attribution above, the gradient's norm below; grey where nothing happens. */
  function drawWalk(host, { positions, scores, attributed, gradient_norms: norms, idle }) {
    const traces = [
      line("score", positions, scores, Colors.variable("--ink")),
      line("attributed so far", positions, attributed, Colors.variable("--accent"), { line: { dash: "dash" } }),
      line("‖∇f‖", positions, norms, Colors.variable("--quiet"), { yaxis: "y2", fill: "tozeroy", fillcolor: GREY, line: { width: 1.5 } }),
    ];
    const shapes = idle.map(([from, to]) => ({ type: "rect", xref: "x", yref: "paper", x0: from, x1: to, y0: 0, y1: 1, fillcolor: GREY, line: { width: 0 }, layer: "below" }));
    const annotations = idle.filter(([from, to]) => to - from > 0.1).map(([from, to]) => ({ x: (from + to) / 2, y: 0.4, yref: "paper", yanchor: "middle", text: "idle", showarrow: false, font: { color: Colors.variable("--quiet"), size: 11 } }));
    window.Plotly.react(host, traces, layout((axis) => ({
      margin: { ...MARGIN, t: 34 }, shapes, annotations,
      xaxis: { ...axis, ...SHARES, anchor: "y2", title: { text: "way from the baseline to the input", standoff: 6 } },
      yaxis: { ...axis, domain: [0.42, 1], title: { text: "score", standoff: 4 } },
      yaxis2: { ...axis, domain: [0, 0.34], rangemode: "tozero", title: { text: "‖∇f‖", standoff: 4 } },
    })), CONFIG);
  }

  /** Score or probability over the share that is removed, for every result: the first ranked first solid, the last ranked first dotted. */
  function drawCurves(host, results, fill, share, level, here) {
    const traces = results.filter((result) => result.curves?.[fill]).flatMap((result) => {
      const all = here === undefined || here === null ? [] : [here]; // nothing removed
      const [shares, most, least] = [[...all.map(() => 0), ...result.curves[fill].shares], [...all, ...result.curves[fill].most], [...all, ...result.curves[fill].least]];
      const one = { legendgroup: result.key, line: {} };
      return [line(escaped(result.name), shares, most, result.color, one), line("last ranked first", shares, least, result.color, { ...one, showlegend: false, line: { dash: "dot", width: 1.5 }, hoverinfo: "skip", hovertemplate: null })];
    });
    const shapes = share > 0 ? [{ type: "line", xref: "x", yref: "paper", x0: share, x1: share, y0: 0, y1: 1, line: { color: Colors.variable("--accent"), width: 1.5 } }] : [];
    window.Plotly.react(host, traces, layout((axis) => ({
      showlegend: false, shapes,
      xaxis: { ...axis, ...SHARES, title: { text: "removed", standoff: 6 } },
      yaxis: { ...axis, title: { text: level, standoff: 4 } },
    })), CONFIG);
  }

  // Plotly reads a few tags in names.
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

  /** Saves a chart as PNG, twice as large as it is shown. */
  async function save(host, name) {
    if (!window.Plotly || !host.data) return;
    const { offsetWidth: width, offsetHeight: height } = host;
    const address = await window.Plotly.toImage(host, { format: "png", width, height, scale: 2 });
    const bytes = Uint8Array.from(window.atob(address.split(",")[1]), (letter) => letter.charCodeAt(0));
    Dialog.download(new Blob([bytes], { type: "image/png" }), `${name}.png`);
  }

  const fit = new ResizeObserver((entries) => entries.forEach(({ target }) => {
    if (target.data && target.offsetWidth > 0) window.Plotly.Plots.resize(target);
  }));
  for (const id of ["walk-chart", "curves-chart"]) fit.observe(find(id));

  return { MARGIN, walk, curves, save };
})();
