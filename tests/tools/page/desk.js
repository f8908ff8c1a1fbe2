// SPDX-License-Identifier: Apache-2.0
//
// node desk.js PAGE.html WIDTH HEIGHT [HASH] < STEPS: runs the scripts of a page of `weir frag` in a window of that size without a browser, does
// the steps that standard input lists as JSON, and prints what there is to see as JSON. The document is a stand-in: elements keep text and
// children and know no layout, but for the two canvases, whose boxes are given; what is written on these is kept with its place. A step is
// an object: {"look": NAME} answers with the state, {"key": KEY, "on": ID}, {"type": TEXT, "on": ID}, {"move": [X, Y], "on": ID}, {"press": ...}, {"click": ID}
// and {"choose": VALUE, "on": ID} do what a user would. {"narrow": FACTOR} makes the page believe that text is so much narrower than it is: a fault
// that the check must see.
"use strict";
const fs = require("fs");
const [file, width, height, hash = ""] = process.argv.slice(2);
const html = fs.readFileSync(file, "utf8");
const steps = JSON.parse(fs.readFileSync(0, "utf8") || "[]");
let narrow = 1;
for (const step of steps) if (step.narrow) narrow = step.narrow;

// DejaVu Sans', about.
function wide(text, size) {
  let ems = 0;
  for (const c of String(text)) ems += " .,:;'|ijlI()[]/".includes(c) ? .34 : "mwMW@%".includes(c) ? .93 : c >= "A" && c <= "Z" ? .67 : .61;
  return ems * size;
}
class Canvas2D {
  constructor(canvas) { this.canvas = canvas; this.font = "10px sans-serif"; this.textAlign = "left"; this.fillStyle = "#000"; this.texts = []; this.fills = new Set(); }
  get size() { return parseFloat(/(\d+(?:\.\d+)?)px/.exec(this.font)[1]); }
  setTransform() { this.texts = []; this.fills = new Set(); }
  measureText(text) { return { width: wide(text, this.size) * narrow * (this.font.startsWith("600") ? 1.1 : 1) }; }
  fillText(text, x, y) {
    const w = wide(text, this.size) * (this.font.startsWith("600") ? 1.1 : 1), left = { left: x, right: x - w, center: x - w / 2 }[this.textAlign];
    this.texts.push({ text: String(text), left, right: left + w, top: y - this.size * .45, bottom: y + this.size * .45 });
  }
  fillRect(x, y, w, h) { if (w > 0 && h > 0) this.fills.add(this.fillStyle); }
  strokeRect() {} beginPath() {} moveTo() {} lineTo() {} closePath() {} fill() {} stroke() {} setLineDash() {}
  drawImage(image) { this.drawn = image; }
  createImageData(w, h) { return { data: new Uint8ClampedArray(w * h * 4) }; }
  putImageData(image) { this.canvas.image = image; }
}
class Element {
  constructor(tag) {
    Object.assign(this, { tag, tagName: tag.toUpperCase(), children: [], listeners: {}, style: {}, dataset: {}, attributes: {}, own: "", value: "", className: "" });
    this.clientWidth = 0; this.clientHeight = 0; this.scrollTop = 0; this.offsetWidth = 200; this.offsetHeight = 80;
  }
  get textContent() { return this.own + this.children.map(c => c.textContent).join(""); }
  set textContent(text) { this.own = String(text); this.children = []; }
  get options() { return this.children; }
  append(...parts) { for (const part of parts) this.children.push(typeof part === "string" ? { textContent: part } : part); }
  replaceChildren(...parts) { this.own = ""; this.children = []; this.append(...parts); }
  insertCell() { const cell = new Element("td"); this.append(cell); return cell; }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(type, act) { (this.listeners[type] = this.listeners[type] || []).push(act); }
  send(type, event) {
    let stopped = false;
    const full = { target: this, clientX: 0, clientY: 0, preventDefault() {}, stopPropagation() { stopped = true; }, ...event };
    for (const act of this.listeners[type] || []) act(full);
    if (!stopped && this !== doc) doc.send(type, { ...full, target: this });
  }
  getContext() { return this.context = this.context || new Canvas2D(this); }
  getBoundingClientRect() { return { left: 0, top: 0, width: this.clientWidth, height: this.clientHeight }; }
  focus() {} setPointerCapture() {}
}
const byId = {};
for (const [, tag, id] of html.matchAll(/<(\w+)[^>]* id="([\w-]+)"/g)) byId[id] = new Element(tag);
byId.film.textContent = /id="film">([\s\S]*?)<\/script>/.exec(html)[1];
for (const [, id, inner] of html.matchAll(/<select id="(\w+)"[^>]*>([\s\S]*?)<\/select>/g))
  for (const [, selected, text] of inner.matchAll(/<option( selected)?>(\w+)/g)) {
    byId[id].append(text);
    if (selected || !byId[id].value) byId[id].value = text;
  }
const doc = new Element("document");
Object.assign(doc, { documentElement: new Element("html"), getElementById: id => byId[id], createElement: tag => new Element(tag) });
const inner = Number(width) - 32 - (Number(width) > 1150 ? 334 : 0);
byId.view.clientWidth = byId["curve-box"].clientWidth = inner;
byId.view.clientHeight = Math.max(260, Number(height) - 500); byId["curve-box"].clientHeight = 280;
const rules = { light: /:root \{([^}]*)\}/.exec(html)[1], dark: /:root\[data-theme="dark"\] \{([^}]*)\}/.exec(html)[1] };
const queue = [];
const prefersDark = steps.some(step => step.dark);
Object.assign(globalThis, {
  document: doc, window: globalThis, innerWidth: Number(width), innerHeight: Number(height), devicePixelRatio: 1, location: { hash },
  history: { replaceState: (a, b, address) => { globalThis.address = address; } },
  matchMedia: () => ({ matches: prefersDark, addEventListener() {} }),
  getComputedStyle: () => ({ getPropertyValue: name => (new RegExp(`${name}: ([^;]*);`).exec(rules[doc.documentElement.dataset.theme || "light"]) || ["", ""])[1] }),
  requestAnimationFrame: act => queue.push(act), addEventListener() {}, Option: class { constructor(text) { this.textContent = text; } },
  setTimeout: act => { queue.push(act); return 1; }, clearTimeout() {},
});
const settle = () => { while (queue.length) queue.shift()(); };

const script = html.slice(html.lastIndexOf("<script>") + 8, html.lastIndexOf("</script>"));
const inside = "globalThis.page = { state, B, S, F, T, film, curves, bandAt, bandsAt, plot, xOf, yOf, theme: () => theme, shown: () => shown, here: () => here, layout: () => layout, lives, bucketOf, top_, bands: () => bands };\n";
(0, eval)(script.replace(/\}\)\(\);\s*$/, inside + "})();"));
settle();

// What hides another text or is cut off, on a canvas.
function faults(canvas, wide, high, scrolls) {
  const list = [], texts = canvas.getContext("2d").texts;
  for (const t of texts)
    if (t.left < 0 || t.right > wide || (!scrolls && (t.top < 0 || t.bottom > high))) list.push(`cut off: '${t.text}'`);
  texts.forEach((a, i) => texts.slice(i + 1).forEach(b => {
    if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) list.push(`'${a.text}' over '${b.text}'`);
  }));
  return list;
}
function look() {
  const canvases = { map: byId.map, curve: byId.curve }, box = byId["curve-box"];
  const legend = byId.legend.children.map(row => ({ colour: row.children[0].style.background, name: row.children[1].textContent, amount: row.children[2].textContent }));
  const { state, B, S, F, T, film, here, shown } = page;
  const at = F.time[state.frame];
  return {
    faults: [...faults(canvases.map, byId.view.clientWidth, byId.view.clientHeight, true), ...faults(canvases.curve, box.clientWidth, box.clientHeight, false)],
    texts: [...canvases.map.getContext("2d").texts, ...canvases.curve.getContext("2d").texts].map(t => t.text),
    legend, title: byId["legend-title"].textContent, shown: shown().length, here: [...here()].map(b => B.id[b]),
    list: byId.list.children.map(item => item.children[0].children.slice(1).map(part => part.textContent)), more: byId.more.textContent,
    matches: byId.matches.textContent, now: byId.now.textContent, block: byId.block.textContent, focus: state.focus < 0 ? -1 : B.id[state.focus],
    time: at, live: F.live[state.frame], tip: byId.tip.style.display === "block" ? byId.tip.textContent : "", address: globalThis.address || "",
    theme: doc.documentElement.dataset.theme, notes: byId.notes.textContent,
    worst: worstColumn(), bands: page.bandsAt(at).map(b => B.id[b]), fills: [...canvases.map.getContext("2d").fills],
  };
}
// By how many pixels the bands of a column are higher or lower, at most, than what is live there.
function worstColumn() {
  const { owner, wide, high } = page.bands(), live = page.curves[0].high;
  let worst = 0;
  for (let x = 0; x < wide; ++x) {
    let taken = 0;
    for (let y = 0; y < high; ++y) taken += owner[y * wide + x] !== -1 ? 1 : 0;
    worst = Math.max(worst, Math.abs(taken - live[page.bucketOf(x, wide)] * high / (page.top_ * 1.06)));
  }
  return worst;
}
// The place of a band's middle over an instant, where it is seen.
function placeOf(id, time) {
  const x = Math.round(page.xOf(time)), rows = [];
  for (let y = page.plot.top; y < byId["curve-box"].clientHeight; ++y) {
    const block = page.bandAt(x, y);
    if (block >= 0 && page.B.id[block] === id) rows.push(y);
  }
  return rows.length ? [x, rows[rows.length >> 1]] : null;
}
const answers = [];
for (const step of steps) {
  const on = byId[step.on];
  if (step.key) on.send("keydown", { key: step.key });
  else if (step.type !== undefined) { on.value = step.type; on.send("input", {}); }
  else if (step.choose) { on.value = step.choose; on.send("change", {}); }
  else if (step.click) byId[step.click].send("click", {});
  else if (step.band !== undefined) {
    const place = placeOf(step.band, step.time);
    answers.push({ place });
    if (place) byId.curve.send(step.press ? "pointerdown" : "pointermove", { clientX: place[0], clientY: place[1] });
  }
  settle();
  if (step.look) answers.push(look());
}
process.stdout.write(JSON.stringify(answers));
