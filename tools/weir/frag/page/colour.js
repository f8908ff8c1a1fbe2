// SPDX-License-Identifier: Apache-2.0
//
// What the page is set to, and the colours that follow from it.
const state = { frame: 0, colour: film.colour, zoom: 0, theme: "", chosen: -1, focus: -1, query: "", sort: "bytes", group: "blocks" };
let playing = 0;
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let theme = {};
function readTheme() {
  for (const name of ["page", "text", "soft", "line", "hole", "free", "spare", "edge", "mark", "halo", "reserved-line", "live-line", "others"])
    theme[name] = css("--" + name);
}
const P = film.palette;
const tagPlace = new Map(P.tags.map((tag, i) => [tag, i]));
const dark = () => document.documentElement.dataset.theme === "dark";
const classOf = (classes, value) => classes.findIndex(c => !c.below || value < c.below);
const ageClass = (block, time) => classOf(P.ages, 1000 * (time - B.born[block]) / Math.max(film.end, 1));
const tagClass = tag => tagPlace.has(tag) ? tagPlace.get(tag) : P.tag_colours.length - 1;
function colourClass(span) {
  const block = S.block[span];
  if (state.colour === "tier" || block < 0) return S.kind[span];
  return blockClass(block, F.time[state.frame]);
}
// Of a block, wherever it is: in the mode "tier" nothing is known of that.
function blockClass(block, time) {
  if (state.colour === "size") return classOf(P.sizes, B.size[block]);
  if (state.colour === "age") return ageClass(block, time);
  return state.colour === "tag" ? tagClass(B.tag[block]) : 0;
}
function classColour(kind) {
  if (state.colour === "tier") return P.kinds[kind].colour;
  // What has an order stands out from the page the more, the more it is.
  const ramp = { size: P.sizes, age: P.ages }[state.colour];
  if (ramp) return ramp[dark() ? ramp.length - 1 - kind : kind].colour;
  return P.tag_colours[kind];
}
// In the timeline, where blocks of several tiers lie over each other, the mode "tier" has one colour that is none of these.
const bandColour = kind => state.colour === "tier" && film.tiers ? (dark() ? "#7d8ca0" : "#93a4b8") : classColour(kind);
function className(kind) {
  if (state.colour === "tier") return P.kinds[kind].name;
  if (state.colour === "size") return P.sizes[kind].name;
  if (state.colour === "age") return P.ages[kind].name;
  return kind < P.tags.length ? nameOf(P.tags[kind]) : "other tags";
}
const IDLE = P.kinds.length - 1;
const numbers = colour => { const n = parseInt(colour.slice(1), 16); return [n >> 16 & 255, n >> 8 & 255, n & 255]; };
function mixed(colour, other, share) {
  return colour.map((v, i) => Math.round(v + (other[i] - v) * share));
}
// Neighbours of one colour are told apart by a shade that goes with the block's number; less where shades have a meaning of their own.
function shaded(colour, step) {
  const mix = [0, -.16, .1, -.3][step] * (["size", "age"].includes(state.colour) ? .45 : 1);
  return mixed(numbers(colour), mix > 0 ? [255, 255, 255] : [0, 0, 0], Math.abs(mix));
}
// What a search has not found fades into the page.
const faded = colour => mixed(colour, numbers(theme.page), .82);
const rgb = c => `rgb(${c[0]},${c[1]},${c[2]})`;
const pixel = c => (255 << 24 | c[2] << 16 | c[1] << 8 | c[0]) >>> 0;
