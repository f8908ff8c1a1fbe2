// SPDX-License-Identifier: Apache-2.0
//
// Searching blocks, and the list of those that are there at the instant.

// Words of a query: "#17" is a block's number, ">16M" and "<4K" are sizes, all else is a part of its name or stack.
function parseQuery(text) {
  const want = { words: [], id: -1, above: -1, below: Infinity, none: true };
  for (const word of text.toLowerCase().split(/\s+/).filter(Boolean)) {
    want.none = false;
    const size = /^([<>])(\d+(?:\.\d+)?)([kmgt]?)(i?b)?$/.exec(word);
    if (size) {
      const bytes = Number(size[2]) * 1024 ** " kmgt".indexOf(size[3] || " ");
      if (size[1] === ">") want.above = Math.max(want.above, bytes); else want.below = Math.min(want.below, bytes);
    } else if (/^#\d+$/.test(word)) want.id = Number(word.slice(1));
    else want.words.push(word);
  }
  return want;
}
let query = parseQuery(""), tagFits = [];
const found = new Uint8Array(B.count);
let foundCount = 0;
function search(text) {
  state.query = text.trim();
  query = parseQuery(text);
  tagFits = film.tags.map(tag => query.words.every(word => tag.toLowerCase().includes(word)));
  foundCount = 0;
  for (let i = 0; i < B.count; ++i) {
    found[i] = query.none || (tagFits[B.tag[i]] && (query.id < 0 || B.id[i] === query.id) &&
      B.size[i] > query.above && B.size[i] < query.below) ? 1 : 0;
    foundCount += found[i];
  }
}
const hides = block => !query.none && !(block >= 0 && found[block]);

// The block after the chosen one that fits, or before it: in the order of birth, around the end.
function nextMatch(step) {
  if (!foundCount || query.none) return -1;
  let at = state.focus >= 0 ? state.focus : step > 0 ? -1 : B.count;
  do at = (at + step + B.count) % B.count; while (!found[at]);
  return at;
}

// ---- the list ----
const most_listed = 200;
// The first of a list by a key, the greatest first, without sorting all of it.
function greatest(list, key, count) {
  const best = [];
  for (const item of list) {
    const value = key(item);
    if (best.length === count && value <= best[count - 1].value) continue;
    let low = 0, high = best.length;
    while (low < high) { const middle = low + high >> 1; if (best[middle].value >= value) low = middle + 1; else high = middle; }
    best.splice(low, 0, { item, value });
    if (best.length > count) best.pop();
  }
  return best.map(one => one.item);
}
function entry(colour, name, amount, title, pressed, act) {
  const item = document.createElement("li"), button = document.createElement("button"), box = document.createElement("i");
  const text = document.createElement("span"), right = document.createElement("span");
  box.style.background = colour; text.textContent = name; right.textContent = amount; button.title = title;
  button.setAttribute("aria-pressed", pressed ? "true" : "false");
  button.append(box, text, right);
  button.addEventListener("click", act);
  item.append(button);
  return item;
}
function describeList() {
  const blocks = [...here].filter(block => found[block]), time = F.time[state.frame];
  let bytes = 0, list, total;
  const tiers = new Map(shown.map(s => [S.block[s], S.kind[s]]));
  for (const block of blocks) bytes += B.size[block];
  if (state.group === "names") {
    const sums = new Map();
    for (const block of blocks) {
      const sum = sums.get(B.tag[block]) || { bytes: 0, count: 0, born: Infinity };
      sum.bytes += B.size[block]; ++sum.count; sum.born = Math.min(sum.born, B.born[block]);
      sums.set(B.tag[block], sum);
    }
    const tags = [...sums.keys()];
    total = tags.length;
    const key = { bytes: tag => sums.get(tag).bytes, age: tag => -sums.get(tag).born }[state.sort];
    list = key ? greatest(tags, key, most_listed) : tags.sort((a, b) => nameOf(a).localeCompare(nameOf(b))).slice(0, most_listed);
    $("list").replaceChildren(...list.map(tag => entry(state.colour === "tag" ? classColour(tagClass(tag)) : "transparent", nameOf(tag),
      `${exact(sums.get(tag).count)} \u00d7, ${human(sums.get(tag).bytes)}`, frames(tag).join("\n"), false,
      () => { $("query").value = frames(tag).join(";"); find(); })));
  } else {
    total = blocks.length;
    const key = { bytes: block => B.size[block], age: block => time - B.born[block] }[state.sort];
    list = key ? greatest(blocks, key, most_listed)
      : blocks.sort((a, b) => nameOf(B.tag[a]).localeCompare(nameOf(B.tag[b])) || a - b).slice(0, most_listed);
    $("list").replaceChildren(...list.map(block => entry(rgb(shaded(classColour(state.colour === "tier" ? tiers.get(block) : blockClass(block, time)), B.id[block] % 4)),
      `${nameOf(B.tag[block])} #${B.id[block]}`, state.sort === "age" ? exact(time - B.born[block]) : human(B.size[block]),
      frames(B.tag[block]).join("\n"), block === state.focus, () => focusOn(block === state.focus ? -1 : block))));
  }
  $("more").textContent = total > list.length ? `and ${exact(total - list.length)} more` : "";
  $("matches").textContent = query.none ? "" : `${exact(blocks.length)} here, ${human(bytes)}; ${exact(foundCount)} in all`;
}
