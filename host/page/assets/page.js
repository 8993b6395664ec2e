// Additions to pages that work without it: live updates, forms that send themselves, zoom by dragging, values at the pointer.
"use strict";

function sendOnChange(form) {
  form.addEventListener("change", (event) => {
    if (event.target.matches("select, input[type=checkbox]")) form.requestSubmit();
  });
}

// Shows the value at the pointer, and zooms into the stretch that is dragged over, through the form's fields.
function watchChart(figure) {
  const svg = figure.querySelector("svg");
  const form = document.querySelector("form[data-auto]");
  const [left, right] = [56, 470];
  const first = Number(figure.dataset.from), last = Number(figure.dataset.to);
  let start = null, mark = null;
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    return Math.min(right, Math.max(left, ((event.clientX - box.left) / box.width) * 480));
  };
  const value = (at) => first + ((at - left) / (right - left)) * (last - first);
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    start = place(event);
    mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, text] of [["class", "selection"], ["y", 10], ["height", 180], ["x", start], ["width", 0]]) mark.setAttribute(name, text);
    svg.append(mark);
    svg.setPointerCapture(event.pointerId);
  });
  const readout = document.createElement("span");
  readout.className = "note";
  figure.querySelector("figcaption").append(" ", readout);
  const short = (number) => Number(number.toPrecision(4)).toString();
  const values = (at) => [...svg.querySelectorAll("polyline:not(.raw)")].map((line) => {
    const points = line.getAttribute("points").split(" ").map((point) => point.split(",").map(Number));
    const [, y] = points.reduce((best, point) => (Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best));
    const { low, high } = figure.dataset;
    return short(Number(low) + ((190 - y) / 180) * (high - low));
  });
  svg.addEventListener("pointerleave", () => { readout.textContent = ""; });
  svg.addEventListener("pointermove", (event) => {
    const at = place(event);
    if (start === null) {
      readout.textContent = `${short(value(at))}: ${values(at).join(", ")}`;
      return;
    }
    mark.setAttribute("x", Math.min(start, at));
    mark.setAttribute("width", Math.abs(at - start));
  });
  svg.addEventListener("pointerup", (event) => {
    if (start === null) return;
    const [from, to] = [start, place(event)].sort((one, other) => one - other);
    start = null;
    mark.remove();
    if (to - from < 5 || !form || !form.elements.from) return;
    form.elements.from.value = value(from).toPrecision(6);
    form.elements.to.value = value(to).toPrecision(6);
    form.requestSubmit();
  });
  svg.addEventListener("pointercancel", () => { start = null; if (mark) mark.remove(); });
}

function prepare(part) {
  part.querySelectorAll("form[data-auto]").forEach(sendOnChange);
  part.querySelectorAll("figure.chart").forEach(watchChart);
}

// Fetches the page again and replaces its main part. Open details stay open, and the focus stays on the same control.
async function refresh() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  const main = document.querySelector("main");
  const open = [...main.querySelectorAll("details[open][id]")].map((part) => part.id);
  const focus = document.activeElement;
  const name = main.contains(focus) ? focus.name || focus.getAttribute("href") : null;
  main.replaceChildren(...fresh.childNodes);
  open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
  if (name) [...main.querySelectorAll("[name], [href]")].find((part) => (part.name || part.getAttribute("href")) === name)?.focus();
  prepare(main);
}

function followRun(address) {
  const line = document.getElementById("live");
  const text = document.createElement("span"), button = document.createElement("button");
  line.append(text, " ", button);
  line.hidden = false;
  let source = null, waits = false;
  const update = async () => {
    // The page stays as it is while somebody writes into a field.
    const busy = document.activeElement?.matches("main input[type=number], main input[type=text], main input[type=search]");
    if (waits || busy || document.hidden) return;
    waits = true;
    await refresh().catch(() => {});
    setTimeout(() => { waits = false; }, 500);
  };
  const begin = () => {
    source = new EventSource(address);
    source.addEventListener("open", () => { text.textContent = "Changes of the runs appear here."; });
    source.addEventListener("change", update);
    source.addEventListener("error", () => { text.textContent = "The connection is lost; the page tries again."; });
    button.textContent = "Pause";
  };
  button.addEventListener("click", () => {
    if (source) {
      source.close();
      source = null;
      text.textContent = "Paused.";
      button.textContent = "Follow";
    } else {
      begin();
      update();
    }
  });
  begin();
}

prepare(document);
if (document.body.dataset.events) followRun(document.body.dataset.events);
