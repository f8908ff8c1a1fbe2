// SPDX-License-Identifier: Apache-2.0
//
// The film: unpacking its columns, and numbers and names as people read them.
const film = JSON.parse(document.getElementById("film").textContent);
const $ = id => document.getElementById(id);

// Base64 of LEB128, deltas in zigzag; numbers stay below 2^53.
function packed(text) {
  const bytes = atob(text), numbers = [];
  let number = 0, scale = 1;
  for (let i = 0; i < bytes.length; ++i) {
    const byte = bytes.charCodeAt(i);
    number += (byte & 127) * scale;
    if (byte & 128) { scale *= 128; continue; }
    numbers.push(number);
    number = 0; scale = 1;
  }
  return Float64Array.from(numbers);
}
const unzigzag = n => n % 2 ? -(n + 1) / 2 : n / 2;
function deltas(text) {
  const numbers = packed(text);
  let before = 0;
  for (let i = 0; i < numbers.length; ++i) numbers[i] = before += unzigzag(numbers[i]);
  return numbers;
}
const B = { count: film.blocks.count, id: deltas(film.blocks.id), size: packed(film.blocks.size), tag: packed(film.blocks.tag),
  born: deltas(film.blocks.born), life: packed(film.blocks.life) };
const sizes = deltas(film.blocks.sizes);
for (let i = 0; i < B.count; ++i) B.size[i] = sizes[B.size[i]];
const KINDS = film.palette.kinds.length;
function spans(json) {
  const first = deltas(json.first), frames = packed(json.frames), place = packed(json.place), block = deltas(json.block);
  const gap = packed(json.gap), bytes = packed(json.bytes), address = new Float64Array(json.count);
  let end = 0;
  for (let i = 0; i < json.count; ++i) {
    // The end is told in whole units, rounded down.
    address[i] = (unzigzag(gap[i]) + end) * json.unit;
    bytes[i] = unzigzag(bytes[i]) + (block[i] ? B.size[block[i] - 1] : 0);
    end = Math.floor((address[i] + bytes[i]) / json.unit);
  }
  const last = frames.map((n, i) => n + first[i]);
  return { count: json.count, first, last, address, bytes, block: Int32Array.from(block, n => n - 1),
    lane: Uint8Array.from(place, n => Math.floor(n / KINDS)), kind: Uint8Array.from(place, n => n % KINDS) };
}
const S = spans(film.spans), R = spans(film.reserved);
const F = { count: film.frames.count };
for (const name of ["time", "live", "reserved", "moved", "operation"]) F[name] = deltas(film.frames[name]);
F.name = packed(film.frames.name); F.phase = packed(film.frames.phase);
const curves = film.curves.map(c => ({ name: c.name, low: deltas(c.low), high: deltas(c.high) }));
const T = { count: film.timeline.count, left_out: film.timeline.left_out, time: deltas(film.timeline.time),
  others: film.timeline.others.map(deltas), block: Int32Array.from(deltas(film.timeline.block)) };
const lives = (block, time) => B.born[block] <= time && (!B.life[block] || time < B.born[block] + B.life[block]);

// ---- words ----
const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
function human(bytes, digits = 2) {
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < 5) { bytes /= 1024; ++unit; }
  return (unit ? bytes.toFixed(digits).replace(/\.?0+$/, "") : bytes) + " " + units[unit];
}
const exact = n => n.toLocaleString("en");
const percent = (part, whole) => (whole ? 100 * part / whole : 0).toFixed(2) + " %";
// A tag may be a stack of calls, "outer;inner": the name is where it ends.
const frames = tag => (film.tags[tag] || "").split(";").filter(Boolean);
const nameOf = tag => frames(tag).pop() || "(none)";
const stackOf = tag => { const all = frames(tag); return all.length > 1 ? all.reverse() : []; };
function rows(table, list) {
  table.replaceChildren(...list.map(([name, value]) => {
    const row = document.createElement("tr");
    if (name) row.insertCell().textContent = name;
    const cell = row.insertCell();
    cell.textContent = value;
    if (!name) { cell.colSpan = 2; cell.className = "wide"; }
    return row;
  }));
}
