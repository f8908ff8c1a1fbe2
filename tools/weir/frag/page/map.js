// SPDX-License-Identifier: Apache-2.0
//
// The map of memory at the chosen instant.

// ---- what is where in the chosen frame ----
let shown = [], held = [], ordered = null, here = new Set();
function select(list, frame) {
  const found = [];
  for (let i = 0; i < list.count && list.first[i] <= frame; ++i) if (list.last[i] >= frame) found.push(i);
  return found;
}
function selectFrame() {
  shown = select(S, state.frame);
  held = select(R, state.frame);
  here = new Set(shown.map(s => S.block[s]));
  here.delete(-1);
  ordered = null;
}
// The blocks of the frame in order of lane and address.
function inOrder() {
  if (!ordered) ordered = Int32Array.from(shown).sort((a, b) => S.lane[a] - S.lane[b] || S.address[a] - S.address[b]);
  return ordered;
}
function spanAt(list, source, lane, address) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = low + high >> 1, s = list[middle];
    if (source.lane[s] < lane || source.lane[s] === lane && source.address[s] <= address) low = middle + 1; else high = middle;
  }
  const s = low ? list[low - 1] : -1;
  return s >= 0 && source.lane[s] === lane && address < source.address[s] + source.bytes[s] ? low - 1 : -1;
}

// ---- rows and captions ----
const view = $("view"), space = $("space"), map = $("map"), gutter = 84, right = 10;
const lineHeight = 16, nameFont = "600 12px system-ui, sans-serif", textFont = "11px system-ui, sans-serif";
let layout = null;
// What stands over a lane, in as many lines as it takes: nothing is cut off.
function captions(lane, perRow, width) {
  const g = map.getContext("2d");
  const parts = [`a row is ${human(perRow)}` + (lane.granule ? `, a tick a granule of ${human(lane.granule)}` : ""), ...(lane.note ? [lane.note] : [])];
  g.font = nameFont;
  let x = 8 + g.measureText(lane.name).width + 10, line = 0;
  g.font = textFont;
  const placed = [];
  for (const part of parts) {
    let words = [];
    for (const word of part.split(" ")) {
      const text = [...words, word].join(" ");
      if (words.length && x + g.measureText(text).width > width - right) {
        placed.push({ x, line, text: words.join(" ") });
        words = [word]; x = 8; ++line;
      } else words.push(word);
    }
    const text = words.join(" ");
    placed.push({ x, line, text });
    x += g.measureText(text).width + 14;
  }
  return { parts: placed, height: (line + 1) * lineHeight + 6 };
}
function makeLayout() {
  const width = Math.max(view.clientWidth, 300), height = Math.max(view.clientHeight, 120);
  const total = film.lanes.reduce((sum, lane) => sum + lane.end, 0) || 1;
  const heads = film.lanes.map(lane => captions(lane, 1024 * 1.5, width).height);
  const roomy = height - heads.reduce((sum, head) => sum + head + 6, 0) - 6;
  // The fewest bytes a row that still fits the height, of 1, 1.5, 2, 3, 4, 6 ...
  let perRow = 1024;
  const needed = n => film.lanes.reduce((sum, lane) => sum + Math.ceil(lane.end / n), 0);
  for (let step = 0; needed(perRow) * 14 > roomy && total > perRow; ++step) perRow = step % 2 ? perRow / 3 * 4 : perRow * 1.5;
  perRow = Math.max(perRow / 2 ** state.zoom, 256);
  const rowHeight = Math.max(14, Math.min(46, Math.floor(roomy / needed(perRow))));
  let top = 4;
  const lanes = film.lanes.map(lane => {
    const caption = captions(lane, perRow, width);
    const place = { caption, top: top + caption.height, rows: Math.max(1, Math.ceil(lane.end / perRow)) };
    top = place.top + place.rows * rowHeight + 6;
    return place;
  });
  layout = { width, height, perRow, rowHeight, lanes, total: top, scale: (width - gutter - right) / perRow };
  space.style.height = Math.max(top, height - 2) + "px";
  const dpr = window.devicePixelRatio || 1;
  map.width = Math.round(width * dpr); map.height = Math.round((height - 2) * dpr);
  map.style.width = width + "px"; map.style.height = height - 2 + "px";
}
// Calls with each row's part of a run that is in sight: x, y, width, and whether the run begins there.
function eachPart(lane, address, bytes, visit) {
  const place = layout.lanes[lane], end = address + bytes;
  const seen = Math.max(0, Math.floor((view.scrollTop - place.top) / layout.rowHeight));
  let row = Math.max(Math.floor(address / layout.perRow), seen);
  for (; row * layout.perRow < end; ++row) {
    const y = place.top + row * layout.rowHeight - view.scrollTop;
    if (y > layout.height) return;
    const from = Math.max(address, row * layout.perRow), to = Math.min(end, (row + 1) * layout.perRow);
    visit(gutter + (from - row * layout.perRow) * layout.scale, y, (to - from) * layout.scale, from === address);
  }
}

// ---- drawing ----
const crowd = 20000;  // more pieces than these are drawn by pixels
function pieceColour(s) {
  const block = S.block[s];
  const colour = block < 0 ? numbers(P.kinds[IDLE].colour) : shaded(classColour(colourClass(s)), B.id[block] % 4);
  return hides(block) ? faded(colour) : colour;
}
function drawMap() {
  const g = map.getContext("2d"), dpr = window.devicePixelRatio || 1;
  g.setTransform(dpr, 0, 0, dpr, 0, 0);
  g.fillStyle = theme.page; g.fillRect(0, 0, layout.width, layout.height);
  const high = layout.rowHeight - (layout.rowHeight > 20 ? 4 : 3);
  drawRows(g, high);
  for (const s of held) {
    g.fillStyle = theme[R.lane[s] ? "spare" : "free"];
    eachPart(R.lane[s], R.address[s], R.bytes[s], (x, y, w) => g.fillRect(x, y, Math.max(w, .5), high));
  }
  if (shown.length > crowd) drawCrowd(g, high);
  else drawPieces(g, high);
  drawContainers(g, high);
  drawChosen(g, high);
}
function drawPieces(g, high) {
  const groups = new Map();
  for (const s of shown) {
    const key = rgb(pieceColour(s));
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(s);
  }
  for (const [colour, list] of groups) {
    g.fillStyle = colour;
    for (const s of list) eachPart(S.lane[s], S.address[s], S.bytes[s], (x, y, w) => g.fillRect(x, y, Math.max(w, .35), high));
  }
  g.fillStyle = theme.edge;
  for (const s of shown)
    eachPart(S.lane[s], S.address[s], S.bytes[s], (x, y, w, begins) => { if (begins && w >= 4) g.fillRect(x, y, .75, high); });
}
// A row of pixels for each row of the map, where each pixel has the colour of the last piece that begins in it or covers it.
function drawCrowd(g, high) {
  const wide = Math.ceil(layout.width), colours = new Map(), strips = new Map();
  for (const s of shown) {
    const c = pieceColour(s), packedColour = pixel(c);
    if (!colours.has(packedColour)) colours.set(packedColour, rgb(c));
    eachPart(S.lane[s], S.address[s], S.bytes[s], (x, y, w) => {
      let strip = strips.get(y);
      if (!strip) strips.set(y, strip = new Uint32Array(wide));
      strip.fill(packedColour, Math.floor(x), Math.max(Math.floor(x) + 1, Math.floor(x + w)));
    });
  }
  for (const [y, strip] of strips)
    for (let from = 0, to = 0; from < wide; from = to) {
      for (to = from + 1; to < wide && strip[to] === strip[from];) ++to;
      if (!strip[from]) continue;
      g.fillStyle = colours.get(strip[from]);
      g.fillRect(from, y, to - from, high);
    }
}
function drawRows(g, high) {
  g.textBaseline = "middle";
  film.lanes.forEach((lane, i) => {
    const place = layout.lanes[i], head = place.top - place.caption.height - view.scrollTop;
    if (head > -place.caption.height && head < layout.height) {
      g.fillStyle = theme.text; g.textAlign = "left"; g.font = nameFont;
      g.fillText(lane.name, 8, head + 12);
      g.font = textFont; g.fillStyle = theme.soft;
      for (const part of place.caption.parts) g.fillText(part.text, part.x, head + 12 + part.line * lineHeight);
    }
    g.font = textFont; g.textAlign = "right";
    for (let row = 0; row < place.rows; ++row) {
      const y = place.top + row * layout.rowHeight - view.scrollTop;
      if (y < -layout.rowHeight || y > layout.height) continue;
      const bytes = Math.min(layout.perRow, lane.end - row * layout.perRow);
      g.fillStyle = theme.hole; g.fillRect(gutter, y, Math.max(bytes, 0) * layout.scale, high);
      g.fillStyle = theme.soft; g.fillText(human(row * layout.perRow), gutter - 8, y + high / 2);
    }
  });
}
// Granules as ticks below the row where there is room for them; segments by their edges.
function drawContainers(g, high) {
  g.fillStyle = theme.mark;
  for (const s of held) {
    const granule = film.lanes[R.lane[s]].granule;
    if (granule && granule * layout.scale < 10) continue;
    if (!granule) {
      eachPart(R.lane[s], R.address[s], R.bytes[s], (x, y, w, begins) => {
        if (begins) g.fillRect(x, y - 1, 1.25, high + 2);
        g.fillRect(x, y + high, w, .75);
      });
      continue;
    }
    g.globalAlpha = .5;
    for (let at = R.address[s]; at < R.address[s] + R.bytes[s]; at += granule)
      eachPart(R.lane[s], at, 1, (x, y) => g.fillRect(x, y + high, 1, 3));
    g.globalAlpha = 1;
  }
}
function drawChosen(g, high) {
  const block = state.focus >= 0 ? state.focus : state.chosen;
  if (block < 0) return;
  for (const s of shown)
    if (S.block[s] === block)
      eachPart(S.lane[s], S.address[s], S.bytes[s], (x, y, w) => {
        const wide = Math.max(w, 3);
        g.lineWidth = 4; g.strokeStyle = theme.halo; g.strokeRect(x - .5, y - .5, wide + 1, high + 1);
        g.lineWidth = 2; g.strokeStyle = theme.mark; g.strokeRect(x - .5, y - .5, wide + 1, high + 1);
      });
}
function addressAt(x, y) {
  y += view.scrollTop;
  for (let i = 0; i < layout.lanes.length; ++i) {
    const place = layout.lanes[i], row = Math.floor((y - place.top) / layout.rowHeight);
    if (y < place.top || row >= place.rows) continue;
    const across = (x - gutter) / layout.scale;
    if (across < 0 || across >= layout.perRow) return null;
    return { lane: i, address: row * layout.perRow + across };
  }
  return null;
}
// The reserved room around an address that no block takes.
function gapAt(list, at) {
  const run = held.find(s => R.lane[s] === at.lane && at.address >= R.address[s] && at.address < R.address[s] + R.bytes[s]);
  let from = R.address[run], to = R.address[run] + R.bytes[run];
  for (const s of list) {
    if (S.lane[s] !== at.lane) continue;
    if (S.address[s] + S.bytes[s] <= at.address) from = Math.max(from, S.address[s] + S.bytes[s]);
    else { to = Math.min(to, S.address[s]); break; }
  }
  return { from, to };
}
