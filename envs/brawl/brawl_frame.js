// Brawl as shapes for draw.js, a plainer figure than envs/brawl/drawing.py's: frame(match, data) gives one frame.
const INK = "#161822", PAPER = "#f5f5f0", GLOW = "#ffe25a", DANGER = "#de3c3c", SEATS = ["#56b4e9", "#f08c14"], DARK = ["#3570a0", "#a85f0c"];

export function frame(m, data) {
  const r = data.rules, shapes = [], { abs, max, min, ceil, sin } = Math, RATE = Math.round(1 / r.tick_seconds);
  const line = (points, width, colour, hud = 0) => shapes.push([0, "", hud, points, "", colour, width]);
  const shape = (points, fill, edge = "", hud = 0) => shapes.push([1, "", hud, points, fill, edge, hud ? 0.5 : 0.06]);
  const oval = (x, y, wide, high, fill, edge = "", width = 0.07, hud = 0) => shapes.push([2, "", hud, [x, y, wide, high], fill, edge, width]);
  const box = (x0, y0, x1, y1, fill, edge = "", hud = 0) => shape([x0, y0, x1, y0, x1, y1, x0, y1], fill, edge, hud);
  const words = (x, y, text, high, colour, most = 0) => shapes.push([3, "", 1, [x, y], colour, "", high, text, most]);

  function view() {
    const here = m.fighters.filter((f) => f.respawn === 0 && f.stocks > 0), side = r.blast_side + 0.25;
    const low = r.blast_bottom - 0.25, high = r.blast_top + 0.25, most = min(2 * side, (high - low) * 16 / 9);
    let wide = most, x = 0, y = (low + high) / 2;
    if (here.length) {
      const xs = here.map((f) => f.x), ys = here.map((f) => f.y + r.body_half_height);
      wide = min(most, max(12, max(...xs) - min(...xs) + 6, (max(...ys) - min(...ys) + 5) * 16 / 9));
      x = (max(...xs) + min(...xs)) / 2;
      y = (max(...ys) + min(...ys)) / 2 + 0.5;
    }
    const half = wide / 2, tall = wide * 9 / 32;
    x = min(max(x, half - side), side - half);
    y = min(max(y, low + tall), high - tall);
    return [x - half, y + tall, x + half, y - tall];
  }

  function stage() {
    for (let i = 0; i < 10; i++) box(-30, 14 - 2.4 * (i + 1) - 0.1, 30, 14 - 2.4 * i, `rgb(${38 + 5 * i},${44 + 6 * i},${66 + 6 * i})`);
    for (const side of [-1, 1]) {
      const inner = side * (r.edge_inner + r.body_half_width), outer = side * (r.edge_outer - r.body_half_width);
      box(inner, r.blast_bottom - 4, outer, 0, "#3a363e");
      box(inner, -0.22, outer, 0, "#708860");
      box(side * r.blast_side, -20, side * (r.blast_side + 9), 20, "rgba(222,60,60,.18)");
    }
    box(-30, r.blast_bottom - 9, 30, r.blast_bottom, "rgba(222,60,60,.18)");
    box(-30, r.blast_top, 30, r.blast_top + 9, "rgba(222,60,60,.18)");
    box(-r.edge_inner, m.platformY - 0.3, r.edge_inner, m.platformY, "#b09268", INK);
  }

  function weapon(kind, x, y, dx, dy) { // from its butt at (x, y) along (dx, dy), a unit vector
    const length = kind === 1 ? 1.9 : 1.1, end = [x + dx * length, y + dy * length];
    line([x, y, ...end], 0.2, INK);
    line([x, y, ...end], 0.1, "#e2ca96");
    const at = (along, across) => [end[0] + dx * along - dy * across, end[1] + dy * along + dx * across];
    shape(kind === 1 ? [...at(0.3, 0), ...at(-0.3, 0.17), ...at(-0.3, -0.17)]
      : [...at(0.2, 0.4), ...at(0.2, -0.4), ...at(-0.28, -0.4), ...at(-0.28, 0.4)], "#ced4de", INK);
  }

  function fighter(f, seat) {
    const s = data.strikes[f.move], isTaunt = f.move === data.taunt, point = (x, y) => [f.x + f.facing * x, f.y + y];
    const isActive = s && !isTaunt && f.moveTick >= s.startup && f.moveTick < s.startup + s.active;
    if (isActive) {
      const edge = s.weight > 0 ? "255,150,60" : "255,245,190";
      oval(...point(s.offset_x, s.offset_y), s.half_width, s.half_height, `rgba(${edge},${f.moveHit ? 0.15 : 0.5})`, `rgba(${edge},.9)`);
    }
    if (f.charge > 0) oval(f.x, f.y + 0.8, 0.7 + 0.7 * f.charge / r.max_charge, 0.9 + 0.7 * f.charge / r.max_charge, "rgba(255,226,90,.35)");
    const runs = f.support !== 0 && abs(f.vx) > 1 ? sin(m.tick * 0.9) * 0.4 : 0, isUp = f.support === 0;
    const lean = f.stun > 0 ? -0.25 : isActive ? 0.25 : s && !isTaunt && f.moveTick < s.startup ? -0.2 : min(0.2, abs(f.vx) / 30);
    const hip = point(lean * 0.3, f.dodge > 0 ? 0.45 : 0.64), neck = point(lean, f.dodge > 0 ? 0.85 : 1.12), head = point(lean * 1.3 + 0.05, f.dodge > 0 ? 1.05 : 1.36);
    const reach = isActive ? point(s.offset_x * 0.75 + 0.15, s.offset_y) : point(s && !isTaunt ? -0.6 : 0.38, isUp || isTaunt ? 1.3 : 0.8);
    const far = point(-0.35, isUp ? 1.25 : 0.75), feet = [point(-0.22 - runs, isUp ? 0.12 : 0), point(0.24 + runs, isUp ? 0.3 : 0)];
    const ghost = f.dodge > 0, own = ghost ? "rgba(245,245,240,.25)" : SEATS[seat], edge = ghost ? SEATS[seat] : INK, dark = ghost ? own : DARK[seat];
    const limbs = [[[neck, far], 0.15, dark], [[hip, feet[0]], 0.18, dark], [[hip, neck], 0.34, own], [[hip, feet[1]], 0.18, own]];
    for (const [points, width] of limbs) line(points.flat(), width + 0.12, edge);
    oval(...head, 0.33, 0.33, edge);
    for (const [points, width, fill] of limbs) line(points.flat(), width, fill);
    oval(...head, 0.27, 0.27, own);
    oval(head[0] + f.facing * 0.11, head[1] + 0.06, 0.1, 0.1, f.stun > 0 ? INK : PAPER);
    if (f.weapon) {
      const dx = isActive ? reach[0] - neck[0] : f.facing * 0.6, dy = isActive ? reach[1] - neck[1] : 0.8, long = Math.hypot(dx, dy) || 1;
      weapon(f.weapon, reach[0] - dx / long * 0.5, reach[1] - dy / long * 0.5, dx / long, dy / long);
    }
    line([...neck, ...reach], 0.28, edge);
    line([...neck, ...reach], 0.16, own);
    if (f.invulnerable > 0) oval(f.x, f.y + 0.8, 0.95, 1.15, "rgba(245,245,240,.18)", "rgba(245,245,240,.9)", 0.09);
    if (f.stun > 0) for (const i of [0, 1, 2]) oval(f.x + 0.55 * sin(2.1 * i + 0.4 * f.stun), f.y + 1.85, 0.1, 0.1, GLOW);
  }

  function panel(f, seat) {
    const left = seat ? 127 : 3;
    box(left, 3, left + 30, 15, "rgba(22,24,34,.75)", SEATS[seat], 1);
    words(left + 9, 9.3, String(Math.round(f.damage)), 8, f.damage > 100 ? "#ff8c32" : f.damage > 50 ? GLOW : PAPER);
    for (let i = 0; i < r.stocks; i++) oval(left + 20 + i % 4 * 2.4, 6.6 + Math.floor(i / 4) * 2.4, 0.9, 0.9, i < f.stocks ? SEATS[seat] : INK, SEATS[seat], 0.2, 1);
    const told = f.stocks < 1 ? "" : f.respawn > 0 ? `back in ${(f.respawn / RATE).toFixed(1)} s` : f.stun > 0 ? "stunned"
      : f.weapon ? `${["", "spear", "hammer"][f.weapon]} ${ceil(f.weaponLeft / RATE)} s` : "";
    words(left + 22.4, 11.8, told, 2.8, PAPER, 12);
  }

  stage();
  for (const item of m.items) {
    if (!item.kind) continue;
    oval(item.x, 0.45, 0.95, 0.75, "rgba(255,226,90,.16)");
    weapon(item.kind, item.x - 0.7, 0.2, 0.97, 0.24);
  }
  m.fighters.forEach((f, seat) => f.respawn === 0 && f.stocks > 0 && fighter(f, seat));
  m.fighters.forEach(panel);
  const left = ceil(max(0, r.time_limit - m.tick) / RATE);
  words(80, 8, `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`, 7, left > 10 ? PAPER : DANGER);
  return { view: view(), background: "#58627c", shapes };
}
