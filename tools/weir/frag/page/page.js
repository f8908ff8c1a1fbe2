// SPDX-License-Identifier: Apache-2.0
//
// Moving through time, the address, and what the user does.
const spanOf = block => shown.find(s => S.block[s] === block);
let waiting = 0;
function draw() {
  if (waiting) return;
  waiting = requestAnimationFrame(() => { waiting = 0; drawMap(); drawCurve(); });
}
function go(frame, keep) {
  state.frame = Math.max(0, Math.min(F.count - 1, frame));
  $("slider").value = state.frame;
  selectFrame();
  describeNow(); describeLegend(); describeList();
  describeBlock(state.focus >= 0 ? spanOf(state.focus) : -1);
  draw();
  if (!keep) writeHash();
}
function frameAt(time) {
  let low = 0, high = F.count;
  while (low < high) { const middle = low + high >> 1; if (F.time[middle] <= time) low = middle + 1; else high = middle; }
  return Math.max(0, low - 1);
}
function stop() { clearInterval(playing); playing = 0; $("play").textContent = "Play"; writeHash(); }
function play() {
  if (playing) return stop();
  if (state.frame === F.count - 1) go(0, true);
  $("play").textContent = "Pause";
  playing = setInterval(() => state.frame === F.count - 1 ? stop() : go(state.frame + 1, true), 1000 / Number($("speed").value));
}
// Keeps a block in sight: its description stays, its band and its pieces have an edge. -1: none.
function focusOn(block, span) {
  state.focus = block;
  if (block >= 0 && span === undefined) span = spanOf(block);
  state.focusSpan = span === undefined ? -1 : span;
  if (state.focusSpan >= 0) reveal(state.focusSpan);
  describeBlock(span);
  describeList();
  draw(); writeHash();
}
function reveal(span) {
  const place = layout.lanes[S.lane[span]], y = place.top + Math.floor(S.address[span] / layout.perRow) * layout.rowHeight;
  if (y < view.scrollTop || y + layout.rowHeight > view.scrollTop + layout.height) view.scrollTop = y - layout.height / 2;
}
// An instant at which a block lives: this one, or the first after its birth.
function goTo(block) {
  if (block < 0) return;
  if (!lives(block, F.time[state.frame])) {
    const before = frameAt(B.born[block]);
    go(F.time[before] < B.born[block] && before + 1 < F.count && lives(block, F.time[before + 1]) ? before + 1 : before, true);
  }
  focusOn(block);
}
function find() {
  search($("query").value);
  describeList(); draw(); writeHash();
}

// ---- the address: #t=1234, #t=50%, #t=peak; colour=, zoom=, theme=, block=, q=, sort=, of= ----
let hashTimer = 0;
function writeHash() {
  clearTimeout(hashTimer);
  hashTimer = setTimeout(() => {
    const parts = ["t=" + F.time[state.frame], "colour=" + state.colour];
    if (state.zoom) parts.push("zoom=" + state.zoom);
    if (state.theme) parts.push("theme=" + state.theme);
    if (state.focus >= 0) parts.push("block=" + B.id[state.focus]);
    if (state.query) parts.push("q=" + encodeURIComponent(state.query));
    if (state.sort !== "bytes") parts.push("sort=" + state.sort);
    if (state.group !== "blocks") parts.push("of=" + state.group);
    try { history.replaceState(null, "", "#" + parts.join("&")); } catch (e) { /* a viewer that forbids it */ }
  }, 200);
}
function decoded(text) {
  try { return decodeURIComponent(text || ""); } catch (e) { return ""; }
}
function readHash() {
  const asked = new Map(location.hash.slice(1).split("&").map(part => part.split("=")));
  const one = (name, list, fallback) => list.includes(asked.get(name)) ? asked.get(name) : fallback;
  state.colour = one("colour", ["tier", "tag", "size", "age"], state.colour);
  state.theme = one("theme", ["light", "dark"], state.theme);
  state.sort = one("sort", ["bytes", "age", "name"], state.sort);
  state.group = one("of", ["blocks", "names"], state.group);
  const zoom = Number(asked.get("zoom"));
  if (Number.isInteger(zoom) && zoom >= 0 && zoom <= 24) state.zoom = zoom;
  const t = asked.get("t"), mark = film.marks.find(m => m.key === t);
  let frame = (film.marks.find(m => m.key === "peak") || { frame: 0 }).frame;
  if (mark) frame = mark.frame;
  else if (/^\d+(\.\d+)?%$/.test(t || "")) frame = frameAt(film.end * parseFloat(t) / 100);
  else if (/^\d+$/.test(t || "")) frame = frameAt(Number(t));
  const block = /^\d+$/.test(asked.get("block") || "") ? B.id.indexOf(Number(asked.get("block"))) : -1;
  if (block >= 0) state.focus = block;
  search(decoded(asked.get("q")));
  for (const name of ["colour", "sort", "group"]) $(name).value = state[name];
  $("query").value = state.query;
  return frame;
}
function applyTheme() {
  const wanted = state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = wanted ? "dark" : "light";
  readTheme();
}

// ---- the map ----
function setZoom(zoom) {
  const anchor = state.focus >= 0 ? spanOf(state.focus) : undefined;
  const middle = addressAt(gutter, layout.height / 2) || { lane: 0, address: 0 };
  const at = anchor === undefined ? middle : { lane: S.lane[anchor], address: S.address[anchor] };
  state.zoom = Math.max(0, Math.min(24, zoom));
  makeLayout();
  const place = layout.lanes[at.lane];
  view.scrollTop = place.top + Math.floor(at.address / layout.perRow) * layout.rowHeight - layout.height / 2;
  draw(); writeHash();
}
const tip = $("tip");
function showTip(text, event, above) {
  tip.textContent = text; tip.style.display = "block";
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
  const y = above ? event.clientY - tip.offsetHeight - 10 : Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8);
  tip.style.top = Math.max(4, y) + "px";
}
function choose(block) {
  if (block !== state.chosen) { state.chosen = block; draw(); }
}
function point(event) {
  const box = map.getBoundingClientRect(), at = addressAt(event.clientX - box.left, event.clientY - box.top);
  const list = inOrder(), found = at ? spanAt(list, S, at.lane, at.address) : -1;
  const block = found >= 0 ? S.block[list[found]] : -1;
  choose(block);
  if (!at) { tip.style.display = "none"; if (state.focus < 0) describeBlock(-1); return; }
  let text;
  if (block >= 0) text = wordsOf(blockWords(block, list[found]));
  else if (found >= 0) text = `${P.kinds[IDLE].name}: ${human(S.bytes[list[found]])} at ${human(S.address[list[found]], 3)}`;
  else {
    const inside = held.some(s => R.lane[s] === at.lane && at.address >= R.address[s] && at.address < R.address[s] + R.bytes[s]);
    text = `${film.lanes[at.lane].name} ${human(at.address, 3)}: ${inside ? "free, but reserved" : "not reserved"}`;
    const gap = inside ? gapAt(list, at) : null;
    if (gap) text += `\n${human(gap.to - gap.from)} between blocks`;
  }
  showTip(text, event, false);
  if (state.focus < 0 && found >= 0 && block >= 0) describeBlock(list[found]);
}
function unpoint() {
  tip.style.display = "none";
  choose(-1);
  describeBlock(state.focus >= 0 ? spanOf(state.focus) : -1);
}
map.addEventListener("mousemove", point);
map.addEventListener("mouseleave", unpoint);
map.addEventListener("click", () => { map.focus(); focusOn(state.focus === state.chosen ? -1 : state.chosen); });
map.addEventListener("keydown", event => {
  const list = inOrder();
  if (event.key === "Escape") return focusOn(-1);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], across = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if ((!step && !across) || !list.length) return;
  event.preventDefault(); event.stopPropagation();
  let at = state.focus >= 0 ? list.findIndex(s => s === state.focusSpan && S.block[s] === state.focus) : -1;
  if (at < 0) at = state.focus >= 0 ? list.findIndex(s => S.block[s] === state.focus) : -1;
  let next;
  if (at < 0) next = 0;
  else if (step) next = at + step;
  else {
    const s = list[at], wanted = S.address[s] + across * layout.perRow;
    next = at;
    while (next + across >= 0 && next + across < list.length && S.lane[list[next]] === S.lane[s] && (S.address[list[next]] - wanted) * across < 0) next += across;
  }
  next = Math.max(0, Math.min(list.length - 1, next));
  while (next > 0 && next < list.length - 1 && S.block[list[next]] < 0) next += step || across;
  if (S.block[list[next]] >= 0) focusOn(S.block[list[next]], list[next]);
});
view.addEventListener("scroll", draw);

// ---- the timeline ----
let dragging = false;
function seek(event) {
  const box = curve.getBoundingClientRect();
  const time = Math.max(0, Math.min(1, (event.clientX - box.left - plot.left) / plotWide())) * film.end;
  const before = frameAt(time), after = Math.min(before + 1, F.count - 1);
  go(time - F.time[before] > F.time[after] - time ? after : before);
}
function overCurve(event) {
  const box = curve.getBoundingClientRect(), x = event.clientX - box.left, share = (x - plot.left) / plotWide();
  if (share < 0 || share > 1) return unpoint();
  const block = bandAt(x, event.clientY - box.top), bucket = Math.floor(share * film.end / film.bucket);
  choose(block >= 0 ? block : -1);
  if (block >= 0) {
    if (state.focus < 0) describeBlock(-1);
    return showTip(wordsOf(blockWords(block, -1)), event, true);
  }
  const list = [`${exact(Math.round(share * film.end))} ${film.unit}`];
  for (const c of curves) if (bucket < c.high.length) list.push(`${c.name}: ${human(c.high[bucket])}`);
  if (block <= others) {
    const kind = others - block, name = kind < P.tags.length ? nameOf(P.tags[kind]) : "other tags";
    list.push(`smaller blocks, ${name}: ${human(T.others[kind][Math.min(bucket, T.time.length - 1)])}`);
  }
  showTip(list.join("\n"), event, true);
}
curve.addEventListener("pointerdown", event => {
  dragging = true;
  curve.setPointerCapture(event.pointerId);
  const box = curve.getBoundingClientRect(), block = bandAt(event.clientX - box.left, event.clientY - box.top);
  if (playing) stop();
  seek(event);
  if (block >= 0) focusOn(block);
});
curve.addEventListener("pointermove", event => { if (dragging) seek(event); overCurve(event); });
curve.addEventListener("pointerup", () => { dragging = false; });
curve.addEventListener("pointerleave", unpoint);
curve.addEventListener("keydown", event => {
  if (event.key === "Escape") return focusOn(-1);
  const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  if (!step) return;
  event.preventDefault(); event.stopPropagation();
  const list = bandsAt(F.time[state.frame]);
  if (!list.length) return;
  const at = list.indexOf(state.focus);
  focusOn(list[at < 0 ? (step > 0 ? 0 : list.length - 1) : Math.max(0, Math.min(list.length - 1, at + step))]);
});

// ---- all else ----
$("slider").addEventListener("input", () => { if (playing) stop(); go(Number($("slider").value)); });
$("back").addEventListener("click", () => go(state.frame - 1));
$("next").addEventListener("click", () => go(state.frame + 1));
$("play").addEventListener("click", play);
$("speed").addEventListener("change", () => { if (playing) { stop(); play(); } });
$("in").addEventListener("click", () => setZoom(state.zoom + 1));
$("out").addEventListener("click", () => setZoom(state.zoom - 1));
$("theme").addEventListener("click", () => { state.theme = dark() ? "light" : "dark"; applyTheme(); go(state.frame); });
for (const name of ["colour", "sort", "group"])
  $(name).addEventListener("change", () => { state[name] = $(name).value; go(state.frame); });
$("query").addEventListener("input", find);
$("query").addEventListener("keydown", event => {
  if (event.key === "Enter") goTo(nextMatch(event.shiftKey ? -1 : 1));
  else if (event.key === "Escape") { $("query").value = ""; find(); }
});
$("later").addEventListener("click", () => goTo(nextMatch(1)));
$("earlier").addEventListener("click", () => goTo(nextMatch(-1)));
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT", "BUTTON"].includes(event.target.tagName)) return;
  if (event.key === " ") { event.preventDefault(); play(); }
  else if (event.key === "ArrowRight") go(state.frame + 1);
  else if (event.key === "ArrowLeft") go(state.frame - 1);
  else if (event.key === "+") setZoom(state.zoom + 1);
  else if (event.key === "-") setZoom(state.zoom - 1);
  else if (event.key === "/") { event.preventDefault(); $("query").focus(); }
});
addEventListener("resize", () => { makeLayout(); draw(); });
addEventListener("hashchange", () => { const frame = readHash(); applyTheme(); makeLayout(); go(frame, true); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { applyTheme(); go(state.frame, true); });

// ---- start ----
document.title = film.title + " - weir frag";
$("title").textContent = film.title;
$("source").textContent = film.source;
const told = T.left_out ? ` Of the timeline's blocks the ${exact(T.count)} largest are bands; the ${exact(T.left_out)} others are one for each colour of tags.` : "";
$("notes").append(film.notes.join(" ") + told + " Keys: ", ...["space", "plays;", "\u2190 \u2192", "step;", "+ \u2212", "zoom;", "/", "searches; arrows in the map and up and down in the timeline go from block to block."].map((word, i) => {
  if (i % 2) return " " + word + " ";
  const k = document.createElement("kbd"); k.textContent = word; return k;
}));
for (const figure of film.figures) {
  const box = document.createElement("div");
  for (const [tag, text, kind] of [["dt", figure.name, ""], ["dd", figure.value, ""], ["dd", figure.note, "note"]]) {
    const part = document.createElement(tag); part.textContent = text; part.className = kind; box.append(part);
  }
  $("figures").append(box);
}
for (const mark of film.marks) {
  const button = document.createElement("button");
  button.textContent = mark.text; button.title = `${exact(F.time[mark.frame])} ${film.unit}`;
  button.addEventListener("click", () => go(mark.frame));
  $("marks").append(button);
}
for (const mode of ["tier", "tag", "size", "age"]) $("colour").append(new Option(mode, mode));
$("slider").max = F.count - 1;
const start = readHash();
applyTheme();
makeLayout();
go(start, true);
if (state.focus >= 0) focusOn(state.focus);
