// SPDX-License-Identifier: Apache-2.0
//
// Words beside the map.
function describeNow() {
  const f = state.frame, list = [[film.unit, `${exact(F.time[f])} of ${exact(film.end)}`]];
  if (F.operation[f]) list.push(["operation", exact(F.operation[f] - 1)], ["", film.texts[F.name[f]]]);
  if (film.texts[F.phase[f]]) list.push(["phase", film.texts[F.phase[f]]]);
  list.push(["live", human(F.live[f])], [film.tiers ? "DEVICE held" : "reserved", human(F.reserved[f])]);
  if (!film.tiers) {
    const unused = Math.max(0, F.reserved[f] - F.live[f]);
    list.push(["unused", human(unused)], ["of reserved", percent(unused, F.reserved[f])]);
  }
  list.push(["moved so far", human(F.moved[f])], ["blocks in the map", exact(here.size)]);
  rows($("now"), list);
  $("clock").textContent = exact(F.time[f]);
  $("slider").setAttribute("aria-valuetext", `${exact(F.time[f])} ${film.unit}, live ${human(F.live[f])}, reserved ${human(F.reserved[f])}`);
}
function key(colour, name, value) {
  const row = document.createElement("div"), box = document.createElement("i"), text = document.createElement("span"), amount = document.createElement("span");
  row.className = "key"; box.style.background = colour; text.textContent = name; amount.textContent = value;
  row.append(box, text, amount);
  return row;
}
// Kinds in the order of the bytes that they have here, where they have no order of their own.
function describeLegend() {
  const bytes = new Map();
  const room = film.lanes.map(() => 0);  // lane by lane: not every tier tells what it holds
  let idle = 0;
  for (const s of shown) {
    room[S.lane[s]] -= S.bytes[s];
    if (S.block[s] < 0) { idle += S.bytes[s]; continue; }
    const kind = colourClass(s);
    bytes.set(kind, (bytes.get(kind) || 0) + S.bytes[s]);
  }
  for (const s of held) room[R.lane[s]] += R.bytes[s];
  const count = { tier: IDLE, size: P.sizes.length, age: P.ages.length, tag: Math.min(P.tags.length + (film.tags.length > P.tags.length ? 1 : 0), P.tag_colours.length) }[state.colour];
  const kinds = [];
  for (let kind = 0; kind < count; ++kind) {
    if (state.colour === "tier" && !film.tiers && kind > 0) break;
    kinds.push(state.colour === "tag" && kind >= P.tags.length ? P.tag_colours.length - 1 : kind);
  }
  if (state.colour === "tag") kinds.sort((a, b) => (bytes.get(b) || 0) - (bytes.get(a) || 0));
  const list = kinds.map(kind => key(classColour(kind), className(kind), human(bytes.get(kind) || 0)));
  if (film.tiers) list.push(key(P.kinds[IDLE].colour, P.kinds[IDLE].name, human(idle)));
  const free = (from, to) => human(room.slice(from, to).reduce((sum, one) => sum + Math.max(0, one), 0));
  list.push(key(theme.free, film.tiers ? "DEVICE: free, but reserved" : "free, but reserved", free(0, 1)));
  if (film.lanes.length > 1) list.push(key(theme.spare, "other tiers: held, not used", free(1)));
  list.push(key(theme.hole, "not reserved", ""));
  $("legend").replaceChildren(...list);
  $("legend-title").textContent = "Blocks by " + { tier: "tier", size: "size", age: "age", tag: "tag" }[state.colour];
}
function blockWords(block, span) {
  const dies = B.life[block] ? exact(B.born[block] + B.life[block]) : "never";
  const list = [["block", exact(B.id[block])], ["name", nameOf(B.tag[block])], ["size", `${human(B.size[block])} (${exact(B.size[block])} B)`]];
  if (span >= 0) {
    const pieces = shown.filter(s => S.block[s] === block);
    const lane = film.lanes[S.lane[span]], at = S.address[span];
    list.push(["lies in", lane.name + (film.tiers ? `, ${P.kinds[S.kind[span]].name}` : "")], ["offset", `${human(at, 3)} (${exact(at)})`]);
    if (lane.granule) list.push(["granule", `${exact(Math.floor(at / lane.granule))} + ${exact(at % lane.granule)}`]);
    if (pieces.length > 1) list.push(["piece", `${human(S.bytes[span])}, one of ${pieces.length}`]);
  }
  list.push(["born", exact(B.born[block])], ["dies", dies]);
  const stack = stackOf(B.tag[block]);
  if (stack.length) list.push(["stack", `${stack.length} calls`], ["", stack.join("\n")]);
  return list;
}
const wordsOf = list => list.map(([name, value]) => name ? `${name}: ${value}` : value).join("\n");
function describeBlock(span) {
  const block = state.focus >= 0 ? state.focus : state.chosen;
  if (block >= 0) rows($("block"), blockWords(block, span === undefined ? -1 : span));
  else rows($("block"), [["", "Point at one in the map or the timeline, click to keep it, or use the arrow keys there."]]);
}
