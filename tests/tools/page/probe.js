// SPDX-License-Identifier: Apache-2.0
//
// Put into a copy of a picture by scripts/pictures, and run by a browser: asks every text for its boxes, and writes what hides
// another text or is cut off into the attribute data-faults of the document's element, and how high the document is into data-height.
"use strict";
addEventListener("load", () => setTimeout(() => {
  const root = document.documentElement, faults = [];
  const skipped = element => element.closest("script, style, noscript, title, #tip, #list");
  // What can be seen of a box: what its ancestors leave of it. Where one of them cuts it off without a way to scroll, that is a fault.
  function visible(element, box, text) {
    let { left, right, top, bottom } = box;
    for (let at = element; at && at !== root; at = at.parentElement) {
      const style = getComputedStyle(at), clip = at.getBoundingClientRect();
      if (at instanceof SVGElement || style.display === "inline") continue;
      if (style.overflowX === "hidden" && (left < clip.left - 1 || right > clip.right + 1)) faults.push(`cut off at the side: '${text}'`);
      if (style.overflowY === "hidden" && (top < clip.top - 1 || bottom > clip.bottom + 1)) faults.push(`cut off above or below: '${text}'`);
      if (style.overflowX !== "visible") { left = Math.max(left, clip.left); right = Math.min(right, clip.right); }
      if (style.overflowY !== "visible") { top = Math.max(top, clip.top); bottom = Math.min(bottom, clip.bottom); }
    }
    return right - left > 1 && bottom - top > 1 ? { left, right, top, bottom, text, element } : null;
  }
  const texts = [], walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, text = node.textContent.trim(), element = node.parentElement;
    if (!text || skipped(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of element instanceof SVGElement ? [element.getBoundingClientRect()] : range.getClientRects()) {
      if (box.width < 1) continue;
      if (box.left < -1 || box.right > innerWidth + 1) faults.push(`beyond the window: '${text}'`);
      const seen = visible(element, box, text.slice(0, 60));
      if (seen) texts.push(seen);
    }
  }
  texts.forEach((a, i) => texts.slice(i + 1).forEach(b => {
    if (a.element !== b.element && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2.5)
      faults.push(`'${a.text}' over '${b.text}'`);
  }));
  if (!texts.length) faults.push("no text at all");
  if (root.scrollWidth > innerWidth + 1) faults.push(`the page is ${root.scrollWidth} wide in a window of ${innerWidth}`);
  // Of a graph: texts stay in their boxes.
  for (const node of document.querySelectorAll("g.node")) {
    const shape = node.querySelector("path, polygon");
    if (!shape) continue;
    const box = shape.getBoundingClientRect();
    for (const text of node.querySelectorAll("text")) {
      const one = text.getBoundingClientRect();
      if (one.left < box.left - 1 || one.right > box.right + 1 || one.top < box.top - 1 || one.bottom > box.bottom + 1)
        faults.push(`leaves its box: '${text.textContent}'`);
    }
  }
  root.setAttribute("data-faults", JSON.stringify(faults.slice(0, 40)));
  root.setAttribute("data-height", Math.ceil(Math.max(root.scrollHeight, document.body.scrollHeight)));
}, 300));
