// SPDX-License-Identifier: Apache-2.0
//
// The timeline of live bytes: each block a band, in order of birth from the bottom up, with the curves over it. Bands are drawn
// by pixels: each pixel belongs to the band that is there, however many there are, and is what the pointer finds.
const curveBox = $("curve-box"), curve = $("curve"), plot = { left: 84, right: 10, top: 28, bottom: 34 };
const curveColours = { live: "live-line", reserved: "reserved-line" };
function niceStep(most, count) {
  let step = 1;
  while (most / step > count) step *= 2;
  return step;
}
function niceCount(most, count) {
  let step = 1;
  for (let i = 0; most / step > count; ++i) step *= [2, 2.5, 2][i % 3];
  return step;
}
const topOf = () => curves.reduce((most, c) => c.high.reduce((m, v) => Math.max(m, v), most), 1);
const top_ = topOf();
const plotWide = () => Math.max(curveBox.clientWidth - plot.left - plot.right, 1);
const plotHigh = () => Math.max(curveBox.clientHeight - plot.top - plot.bottom, 1);
function xOf(time) { return plot.left + plotWide() * time / Math.max(film.end, 1); }
function yOf(bytes) { return plot.top + plotHigh() * (1 - bytes / (top_ * 1.06)); }
function lineColour(c) {
  if (film.tiers && c.name === "live") return theme.text;
  if (curveColours[c.name]) return theme[curveColours[c.name]];
  const kind = P.kinds.findIndex(k => k.name === c.name);
  return kind >= 0 ? P.kinds[kind].colour : theme.text;
}

// ---- bands ----
const nothing = -1, others = -2;  // and below: smaller blocks, by the class of their tags
let bands = null;  // what was drawn last: its key, the canvas, and each pixel's block
// Of the buckets that a column of pixels covers the one with the most live.
function bucketOf(column, wide) {
  const last = T.time.length - 1, at = x => Math.min(last, Math.floor(x / wide * film.end / film.bucket));
  const live = curves[0].high;
  let best = at(column);
  for (let i = best + 1; i < at(column + 1); ++i) if (live[i] > live[best]) best = i;
  return best;
}
const tagColourOf = kind => kind < P.tags.length ? kind : P.tag_colours.length - 1;
// Fills one column of block numbers, from the bottom up; returns its blocks from the bottom up.
function fillColumn(owner, column, wide, high, alive, bucket) {
  const scale = high / (top_ * 1.06);
  let sum = 0, from = 0;
  const fill = (bytes, who) => {
    sum += bytes;
    const to = Math.min(high, Math.round(sum * scale));
    for (let row = from; row < to; ++row) owner[(high - 1 - row) * wide + column] = who;
    from = Math.max(from, to);
  };
  for (const block of alive) fill(B.size[block], block);
  T.others.forEach((sums, i) => fill(sums[bucket], others - i));
}
function ownersOf(wide, high) {
  const owner = new Int32Array(wide * high).fill(nothing);
  let alive = [], next = 0, bucketBefore = -1;
  for (let column = 0; column < wide; ++column) {
    const bucket = bucketOf(column, wide), time = T.time[bucket];
    if (bucket !== bucketBefore) {
      alive = alive.filter(block => lives(block, time));
      for (; next < T.count && B.born[T.block[next]] <= time; ++next) if (lives(T.block[next], time)) alive.push(T.block[next]);
      bucketBefore = bucket;
    }
    fillColumn(owner, column, wide, high, alive, bucket);
  }
  return owner;
}
function paint(owner, wide, high, dpr) {
  const pixels = new Uint32Array(wide * high), cache = new Map();
  const rest = numbers(theme.others), colourOf = (block, time) => {
    if (block <= others) {
      const colour = state.colour === "tag" ? mixed(numbers(classColour(tagColourOf(others - block))), rest, .45) : rest;
      return query.none ? colour : faded(colour);
    }
    const kind = blockClass(block, time), key = (kind * 4 + B.id[block] % 4) * 2 + (hides(block) ? 1 : 0);
    if (!cache.has(key)) {
      const colour = shaded(bandColour(kind), B.id[block] % 4);
      cache.set(key, hides(block) ? faded(colour) : colour);
    }
    return cache.get(key);
  };
  const least = Math.round(3 * dpr);
  for (let column = 0; column < wide; ++column) {
    const time = T.time[bucketOf(column, wide)];
    for (let row = 0; row < high;) {
      const block = owner[row * wide + column];
      let to = row + 1;
      while (to < high && owner[to * wide + column] === block) ++to;
      if (block !== nothing) {
        const colour = colourOf(block, time), value = pixel(colour);
        for (let y = row; y < to; ++y) pixels[y * wide + column] = value;
        // An edge between bands that are thick enough for one.
        if (to - row > least) pixels[row * wide + column] = pixel(mixed(colour, [0, 0, 0], .28));
      }
      row = to;
    }
  }
  return pixels;
}
function makeBands(dpr) {
  const wide = Math.round(plotWide() * dpr), high = Math.round(plotHigh() * dpr);
  const shape = `${wide} ${high}`, look = [shape, state.colour, dark(), state.query].join(" ");
  if (bands && bands.look === look) return;
  const owner = bands && bands.shape === shape ? bands.owner : ownersOf(wide, high);
  const picture = document.createElement("canvas");
  picture.width = wide; picture.height = high;
  const g = picture.getContext("2d"), image = g.createImageData(wide, high);
  new Uint32Array(image.data.buffer).set(paint(owner, wide, high, dpr));
  g.putImageData(image, 0, 0);
  bands = { look, shape, owner, wide, high, dpr, picture };
}
// The edge of one block's band, wherever it is.
function drawBandEdge(g, block) {
  if (block < 0 || !bands) return;
  const { owner, wide, high, dpr } = bands;
  const is = (x, y) => x >= 0 && y >= 0 && x < wide && y < high && owner[y * wide + x] === block;
  g.fillStyle = theme.mark;
  const side = 1 / dpr;
  for (let y = 0; y < high; ++y)
    for (let x = 0; x < wide; ++x) {
      if (owner[y * wide + x] !== block || (is(x - 1, y) && is(x + 1, y) && is(x, y - 1) && is(x, y + 1))) continue;
      g.fillRect(plot.left + x * side, plot.top + y * side, Math.max(side, 1), Math.max(side, 1));
    }
}
// The block whose band is at this place of the canvas; `others` or less, or `nothing`.
function bandAt(x, y) {
  if (!bands) return nothing;
  const column = Math.floor((x - plot.left) * bands.dpr), row = Math.floor((y - plot.top) * bands.dpr);
  return column < 0 || row < 0 || column >= bands.wide || row >= bands.high ? nothing : bands.owner[row * bands.wide + column];
}
// The bands over an instant, from the bottom up.
function bandsAt(time) {
  return Array.from(T.block).filter(block => lives(block, time));
}

// ---- drawing ----
function drawCurve() {
  const width = curveBox.clientWidth, height = curveBox.clientHeight, dpr = window.devicePixelRatio || 1;
  curve.width = width * dpr; curve.height = height * dpr; curve.style.width = width + "px"; curve.style.height = height + "px";
  const g = curve.getContext("2d");
  g.setTransform(dpr, 0, 0, dpr, 0, 0);
  g.fillStyle = theme.page; g.fillRect(0, 0, width, height);
  g.font = textFont; g.textBaseline = "middle";
  const step = niceStep(top_, 5);
  for (let v = 0; v <= top_ * 1.06; v += step) {
    g.fillStyle = theme.line; g.fillRect(plot.left, Math.round(yOf(v)), plotWide(), 1);
    g.fillStyle = theme.soft; g.textAlign = "right"; g.fillText(human(v), plot.left - 8, yOf(v));
  }
  const tick = niceCount(film.end, 10);
  g.textAlign = "center";
  for (let t = 0; t <= film.end; t += tick) {
    g.fillStyle = theme.line; g.fillRect(Math.round(xOf(t)), height - plot.bottom, 1, 4);
    const half = g.measureText(exact(t)).width / 2;
    g.fillStyle = theme.soft; g.fillText(exact(t), Math.min(xOf(t), width - 4 - half), height - plot.bottom + 11);
  }
  g.fillText(film.unit, (plot.left + width - plot.right) / 2, height - 8);
  makeBands(dpr);
  g.drawImage(bands.picture, plot.left, plot.top, plotWide(), plotHigh());
  drawBandEdge(g, state.focus >= 0 ? state.focus : state.chosen);
  for (const c of curves) drawLine(g, c, lineColour(c));
  drawCurveKey(g, width);
  for (const mark of film.marks) {
    const x = xOf(F.time[mark.frame]);
    g.fillStyle = theme.soft; g.beginPath(); g.moveTo(x, plot.top); g.lineTo(x - 4, plot.top - 7); g.lineTo(x + 4, plot.top - 7); g.fill();
  }
  const x = xOf(F.time[state.frame]);
  g.fillStyle = theme.halo; g.fillRect(x - 2, plot.top - 6, 4, height - plot.top - plot.bottom + 6);
  g.fillStyle = theme.mark; g.fillRect(x - 1, plot.top - 6, 2, height - plot.top - plot.bottom + 6);
}
// A value holds to the end of its bucket.
function drawLine(g, c, colour) {
  const x = i => xOf(Math.min(i * film.bucket, film.end));
  const along = values => values.forEach((v, i) => {
    if (i) g.lineTo(x(i), yOf(v)); else g.moveTo(x(0), yOf(v));
    g.lineTo(x(i + 1), yOf(v));
  });
  if (c.name !== "live") {
    // Between the lowest and the highest of each bucket.
    g.beginPath();
    along(c.high);
    for (let i = c.low.length - 1; i >= 0; --i) { g.lineTo(x(i + 1), yOf(c.low[i])); g.lineTo(x(i), yOf(c.low[i])); }
    g.closePath();
    g.fillStyle = colour; g.globalAlpha = .35; g.fill(); g.globalAlpha = 1;
  }
  g.beginPath();
  along(c.high);
  // A line of the page's colour below it: so it is seen over any band.
  g.setLineDash([]); g.strokeStyle = theme.halo; g.globalAlpha = .7; g.lineWidth = 3; g.stroke(); g.globalAlpha = 1;
  g.strokeStyle = colour; g.lineWidth = 1.5; g.setLineDash(c.name === "live" ? [] : [6, 2]); g.stroke(); g.setLineDash([]);
}
function drawCurveKey(g, width) {
  let x = plot.left;
  g.textAlign = "left"; g.font = textFont;
  const put = (text, draw) => {
    if (x + 30 + g.measureText(text).width > width - 4) return;
    draw();
    g.fillStyle = theme.text; g.fillText(text, x + 30, 10.5);
    x += 30 + g.measureText(text).width + 18;
  };
  for (const c of curves)
    put(c.name, () => {
      g.strokeStyle = lineColour(c); g.lineWidth = 2.5; g.setLineDash(c.name === "live" ? [] : [6, 2]);
      g.beginPath(); g.moveTo(x, 10); g.lineTo(x + 24, 10); g.stroke(); g.setLineDash([]);
    });
  const box = colour => () => { g.fillStyle = colour; g.fillRect(x, 5, 24, 10); };
  if (T.left_out) put(state.colour === "tag" ? "paler: smaller blocks" : "smaller blocks", box(theme.others));
  put("a band is a block", box(bandColour(0)));
}
