"use strict";
// Draws frames of shapes on a canvas: painter(canvas, frames) gives (index, share, isBoxed) => draws it, `share` of the
// way to the next one.
function painter(picture, frames) {
  const HUD = [160, 90], FARTHEST = 3.5, brush = picture.getContext("2d"), slots = [];

  // Which shape of a frame is which of the next one: the n-th of its group.
  function slotsOf(index) {
    if (slots[index]) return slots[index];
    const seen = new Map(), found = new Map(), table = frames.table;
    for (const id of frames.list[index][1]) {
      const group = table[id][1], n = seen.get(group) || 0;
      seen.set(group, n + 1);
      found.set(group + "\n" + n, id);
    }
    return (slots[index] = found);
  }

  function between(a, b, share) {
    if (a === b || share === 0 || !b || a[0] !== b[0] || a[2] & 1 || a[3].length !== b[3].length) return a[3];
    for (let i = 0; i < a[3].length; i++) if (Math.abs(a[3][i] - b[3][i]) > FARTHEST) return a[3];
    return a[3].map((x, i) => x + (b[3][i] - x) * share);
  }

  function drawShape(shape, points, place) {
    const [kind, , , , fill, line, width, text, most] = shape, { x, y, scale } = place;
    brush.lineWidth = Math.max(1, width * scale);
    if (kind === 2) {
      brush.beginPath();
      brush.ellipse(x(points[0]), y(points[1]), Math.abs(points[2]) * scale, Math.abs(points[3]) * scale, 0, 0, 7);
    } else if (kind === 3) {
      brush.font = "600 " + Math.max(5, width * scale) + "px system-ui, sans-serif";
      brush.textAlign = "center";
      brush.textBaseline = "middle";
      brush.fillStyle = fill;
      if (most) brush.fillText(text, x(points[0]), y(points[1]), most * scale);
      else brush.fillText(text, x(points[0]), y(points[1]));
      return;
    } else {
      brush.beginPath();
      for (let i = 0; i < points.length; i += 2) brush.lineTo(x(points[i]), y(points[i + 1]));
      if (kind === 1) brush.closePath();
    }
    if (fill) { brush.fillStyle = fill; brush.fill(); }
    if (line) { brush.strokeStyle = line; brush.stroke(); }
  }

  return function (index, share, isBoxed) {
    const next = Math.min(index + 1, frames.list.length - 1), table = frames.table;
    const here = frames.list[index][0], there = frames.list[next][0];
    const view = here.map((x, i) => x + (there[i] - x) * share);
    const wide = picture.width, high = picture.height, way = view[3] > view[1] ? 1 : -1;
    const scale = Math.min(wide / Math.abs(view[2] - view[0]), high / Math.abs(view[3] - view[1]));
    const middle = [(view[0] + view[2]) / 2, (view[1] + view[3]) / 2];
    const world = { scale, x: (v) => wide / 2 + (v - middle[0]) * scale, y: (v) => high / 2 + way * (v - middle[1]) * scale };
    const fit = Math.min(wide / HUD[0], high / HUD[1]);
    const hud = { scale: fit, x: (v) => (wide - HUD[0] * fit) / 2 + v * fit, y: (v) => (high - HUD[1] * fit) / 2 + v * fit };
    const later = slotsOf(next), counts = new Map();
    brush.fillStyle = frames.background;
    brush.fillRect(0, 0, wide, high);
    brush.lineCap = brush.lineJoin = "round";
    for (const id of frames.list[index][1]) {
      const shape = table[id], group = shape[1], n = counts.get(group) || 0;
      counts.set(group, n + 1);
      if (shape[2] & 2 && !isBoxed) continue;
      const other = later.get(group + "\n" + n);
      drawShape(shape, between(shape, other === undefined ? null : table[other], share), shape[2] & 1 ? hud : world);
    }
  };
}
