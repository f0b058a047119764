// Brawl in a page. The rules are those of envs/brawl/*.pxi in the same float64 operations, so a match is equal bit for
// bit; what only rewards and metrics need is left out. tests/arena/test_static_pages.py compares the two.
import { frame } from "./brawl_frame.js";

const UP = 1, LEFT = 2, DOWN = 4, RIGHT = 8, JUMP = 16, PICKUP = 32, DODGE = 64, LIGHT = 128, HEAVY = 256, TAUNT = 512;
const FRESH_ONLY = JUMP | PICKUP | DODGE | TAUNT, NUM_KEYS = 10, HALF = 32;
const AIR = 0, GROUND = 1, PLATFORM = 2, UNARMED = 0, SPEAR = 1, HAMMER = 2, NO_WISH = 0, TAKE = 1, DROP = 2;
const [NEUTRAL_LIGHT, SIDE_LIGHT, DOWN_LIGHT, NEUTRAL_HEAVY, SIDE_HEAVY, DOWN_HEAVY, NEUTRAL_AIR, SIDE_AIR, DOWN_AIR,
  RECOVERY, GROUND_POUND] = Array(11).keys();
const { abs, max, min, trunc } = Math;

// Random numbers: splitmix64, as structs.pxi has it.
const U64 = (x) => BigInt.asUintN(64, x);
function mix(z) {
  z = U64((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
  z = U64((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
  return z ^ (z >> 31n);
}
function draw(m) { return mix((m.rng = U64(m.rng + 0x9e3779b97f4a7c15n))); }
function drawUnit(m) { return Number(draw(m) >> 11n) * (1 / 9007199254740992); }
function drawBetween(m, low, high) { return low + Number((draw(m) >> 33n) % BigInt(high - low + 1)); }

function toward(value, target, most) {
  if (value < target) return value + most > target ? target : value + most;
  return value - most < target ? target : value - most;
}
const clip = (x) => max(-1, min(1, x)), groundOf = (x) => (x < 0 ? 0 : 1), seats = [0, 1];
const directionOf = (keys) => (keys & RIGHT ? 1 : 0) - (keys & LEFT ? 1 : 0);

// `data`: rules, strikes, starts[weapon][kind], taunt, as league/arena/static_pages.py writes them.
export function open(data) {
  const r = data.rules, strikes = data.strikes, dt = r.tick_seconds;
  let m = null, pressed = null;

  // A fighter's own tick (fighter.pxi).
  const overGround = (x) => abs(x) >= r.edge_inner && abs(x) <= r.edge_outer;
  function busyTicks(f) {
    if (f.respawn > 0) return f.respawn;
    let busy = max(f.stun, f.dodge);
    if (f.move >= 0) {
      const s = strikes[f.move], rest = s.startup + s.active + s.recovery - f.moveTick;
      busy = max(busy, s.air && rest > s.recovery ? s.recovery : rest);
    }
    return busy;
  }
  function itemInReach(f) {
    const i = groundOf(f.x);
    return f.support === GROUND && m.items[i].kind > 0 && abs(f.x - m.items[i].x) <= r.pickup_reach ? i : -1;
  }
  function legalKeys(f) {
    const ticks = r.ticks_per_step, busy = busyTicks(f);
    let keys = 0, once = 0;
    if (busy < ticks) keys = UP | LEFT | DOWN | RIGHT | LIGHT | HEAVY;
    else if (f.respawn > 0) return 0;
    else if (f.support === AIR && f.stun < ticks && f.dodge < ticks) keys = LEFT | DOWN | RIGHT;
    if (f.move >= 0 && strikes[f.move].charges && f.moveTick < strikes[f.move].startup && f.charge < r.max_charge) keys |= HEAVY;
    if (busy === 0) {
      if (f.support !== AIR || f.jumpsLeft > 0) once |= JUMP;
      if (f.dodgeCooldown === 0) once |= DODGE;
      if (f.support !== AIR) once |= TAUNT;
      if (f.weapon > 0 || itemInReach(f) >= 0) once |= PICKUP;
      keys |= once & ~f.keys;
    }
    return keys;
  }
  function beginStrike(f, move) { Object.assign(f, { move, moveTick: 0, moveHit: 0 }); }
  function endAttack(f) { Object.assign(f, { move: -1, moveTick: 0, moveHit: 0, charge: 0 }); }
  function beginAttack(f, move) {
    beginStrike(f, move);
    f.charge = f.dash = 0;
  }
  function chosenKind(f, keys, dx) {
    const aim = keys & UP ? 1 : keys & DOWN ? -1 : dx !== 0 ? 0 : 1;
    const of = (up, side, down) => (aim === 1 ? up : aim === 0 ? side : down);
    if (f.support !== AIR) {
      if (keys & HEAVY) return of(NEUTRAL_HEAVY, SIDE_HEAVY, DOWN_HEAVY);
      return keys & LIGHT ? of(NEUTRAL_LIGHT, SIDE_LIGHT, DOWN_LIGHT) : -1;
    }
    if (keys & HEAVY) {
      if (aim === -1) return GROUND_POUND;
      if (f.recoveryLeft > 0) return RECOVERY;
    }
    return keys & LIGHT ? of(NEUTRAL_AIR, SIDE_AIR, DOWN_AIR) : -1;
  }
  function startDodge(f, dx) {
    f.direction = dx;
    if (f.support !== AIR && dx !== 0) {
      f.dash = dx === f.facing ? r.dash_ticks : r.back_dash_ticks;
      f.dodgeCooldown = r.dash_cooldown;
      return;
    }
    f.dash = 0;
    f.dodge = r.dodge_ticks;
    f.dodgeCooldown = f.support !== AIR ? r.dodge_cooldown_ground : r.dodge_cooldown_air;
  }
  function turnAround(f, dx) {
    f.facing = dx;
    if (f.support !== AIR) {
      f.turn = r.turn_ticks;
      f.dash = f.runTicks = 0;
    } else if (f.vx * dx < 0) f.vx = f.vx * r.air_turn;
  }
  function jump(f) {
    if (f.support !== AIR) {
      f.vy = r.jump_speed;
      f.support = AIR;
    } else {
      f.vy = r.air_jump_speed;
      f.jumpsLeft -= 1;
    }
    f.dash = 0;
  }
  function obey(f, keys, dx) {
    const fresh = keys & ~f.keys;
    if (fresh & DODGE && f.dodgeCooldown === 0) {
      startDodge(f, dx);
      return NO_WISH;
    }
    if (dx !== 0 && dx !== f.facing && !(f.dash > 0 && dx === f.direction)) turnAround(f, dx);
    if (fresh & JUMP && (f.support !== AIR || f.jumpsLeft > 0)) {
      jump(f);
      return NO_WISH;
    }
    if (fresh & PICKUP && f.weapon === UNARMED && itemInReach(f) >= 0) return TAKE;
    const kind = chosenKind(f, keys, dx);
    if (kind >= 0) {
      if (kind === RECOVERY) f.recoveryLeft = 0;
      beginAttack(f, data.starts[f.weapon][kind]);
      f.invulnerable = 0;
      return NO_WISH;
    }
    if (fresh & PICKUP && f.weapon !== UNARMED) return DROP;
    if (fresh & TAUNT && f.support !== AIR) beginAttack(f, data.taunt);
    else if (fresh & DOWN && f.support === PLATFORM) {
      f.support = AIR;
      f.y -= r.drop_depth;
    }
    return NO_WISH;
  }
  function accelerateStanding(f, dx, walks) {
    if (f.dash > 0) {
      f.vx = f.direction * (f.direction === f.facing ? r.dash_speed : r.back_dash_speed);
      f.runTicks = f.direction === f.facing ? r.run_after : 0;
    } else if (walks && dx !== 0 && f.turn === 0) {
      f.vx = toward(f.vx, dx * (f.runTicks >= r.run_after ? r.run_speed : r.walk_speed), r.ground_acceleration * dt);
      if (f.runTicks < r.run_after) f.runTicks += 1;
    } else {
      f.vx = toward(f.vx, 0, (f.stun > 0 ? r.stun_friction : r.ground_friction) * dt);
      f.runTicks = 0;
    }
  }
  function accelerateInAir(f, keys, dx) {
    let limit = r.max_fall;
    f.runTicks = f.dash = 0;
    if (f.stun > 0) f.vx = toward(f.vx, 0, r.stun_drag * dt);
    else if (dx !== 0) f.vx = toward(f.vx, dx * r.air_speed, r.air_acceleration * dt);
    else f.vx = toward(f.vx, 0, r.air_drag * dt);
    f.vy -= r.gravity * dt;
    if (f.stun > 0 || (f.move >= 0 && strikes[f.move].lunge_y < 0)) limit = r.max_fast_fall;
    else if (keys & DOWN && f.vy < 0) {
      f.vy -= r.fast_fall * dt;
      limit = r.max_fast_fall;
    }
    if (f.vy < -limit) f.vy = -limit;
  }
  function accelerate(f, keys, dx, walks) {
    if (f.dodge > 0) {
      f.vx = f.direction * r.dodge_speed;
      f.vy = 0;
      return;
    }
    if (f.support !== AIR) accelerateStanding(f, dx, walks);
    else accelerateInAir(f, keys, dx);
    const s = strikes[f.move];
    if (s && f.moveTick === s.startup) {
      if (s.lunge_x !== 0) f.vx = f.facing * s.lunge_x;
      if (s.lunge_y !== 0) f.vy = s.lunge_y;
    }
  }
  function land(f, support, level) {
    f.y = level;
    if (f.stun > 0 && f.vy < -r.bounce_speed) {
      f.vy = -f.vy * r.bounce;
      return;
    }
    Object.assign(f, { vy: 0, support, jumpsLeft: r.air_jumps, recoveryLeft: 1 });
    const s = strikes[f.move];
    if (s && s.air && f.moveTick < s.startup + s.active) {
      if (s.on_land >= 0) beginStrike(f, s.on_land);
      else f.moveTick = s.startup + s.active;
    }
  }
  function meetStage(f, oldX, oldY, oldPlatform) {
    if (overGround(f.x) && f.y <= 0) {
      if (oldY >= 0) return land(f, GROUND, 0);
      f.x = (f.x > 0 ? 1 : -1) * (abs(oldX) > (r.edge_inner + r.edge_outer) * 0.5 ? r.edge_outer : r.edge_inner);
      f.vx = 0;
    }
    if (abs(f.x) <= r.edge_inner && oldY >= oldPlatform && f.y <= m.platformY && f.vy <= 0) land(f, PLATFORM, m.platformY);
  }
  function travel(f, oldPlatform) {
    const oldX = f.x, oldY = f.y;
    f.x += f.vx * dt;
    if (f.support === AIR) f.y += f.vy * dt;
    else if (f.support === GROUND) {
      if (!overGround(f.x)) f.support = AIR;
    } else {
      f.y = m.platformY;
      if (abs(f.x) > r.edge_inner) f.support = AIR;
    }
    if (f.support === AIR) meetStage(f, oldX, oldY, oldPlatform);
  }
  function fighterTick(f, keys, oldPlatform) {
    if (f.respawn > 0) {
      f.respawn -= 1;
      f.keys = keys & FRESH_ONLY;
      if (f.respawn === 0) f.invulnerable = r.protection_ticks;
      return NO_WISH;
    }
    const dx = directionOf(keys), acts = busyTicks(f) === 0, wish = acts ? obey(f, keys, dx) : NO_WISH;
    accelerate(f, keys, dx, acts && f.move < 0);
    travel(f, oldPlatform);
    f.keys = keys;
    return wish;
  }
  function runStrike(f) {
    const s = strikes[f.move];
    if (s.charges && f.moveTick === s.startup - 1 && f.keys & HEAVY && f.charge < r.max_charge) {
      f.charge += 1;
      return;
    }
    f.moveTick += 1;
    if (f.moveTick === s.startup + s.active) {
      const next = f.moveHit ? s.on_hit : s.on_miss;
      if (next >= 0) return beginStrike(f, next);
    }
    if (f.moveTick >= s.startup + s.active + s.recovery) endAttack(f);
  }
  function runTimers(f) {
    if (f.respawn > 0) return;
    for (const name of ["stun", "invulnerable", "dodge", "dash", "dodgeCooldown", "turn"]) if (f[name] > 0) f[name] -= 1;
    if (f.weaponLeft > 0 && --f.weaponLeft === 0) f.weapon = UNARMED;
    if (f.move >= 0) runStrike(f);
  }

  // What the fighters do to each other, the items, the end (fight.pxi).
  function movePlatform() {
    m.platformY += m.platformDirection * r.platform_speed * dt;
    if (m.platformY >= r.platform_high) Object.assign(m, { platformY: r.platform_high, platformDirection: -1 });
    else if (m.platformY <= r.platform_low) Object.assign(m, { platformY: r.platform_low, platformDirection: 1 });
  }
  function layItem(item, kind, x, left) { Object.assign(item, { kind, x, left, ticks: r.item_ticks }); }
  function clearItem(item) {
    Object.assign(item, { kind: 0, left: 0, ticks: drawBetween(m, r.item_wait_min, r.item_wait_max) });
  }
  function grantWishes(wish, reach) {
    const fallsOn = m.fighters.map((f, s) => {
      const i = groundOf(f.x);
      return wish[s] === DROP && overGround(f.x) && f.y >= 0 && m.items[i].kind === 0 ? i : -1;
    });
    for (const i of seats) {
      const wants = seats.map((s) => wish[s] === TAKE && reach[s] === i);
      if (wants[0] === wants[1]) continue;
      const f = m.fighters[wants[0] ? 0 : 1];
      f.weapon = m.items[i].kind;
      f.weaponLeft = m.items[i].left;
      clearItem(m.items[i]);
    }
    for (const s of seats) {
      if (wish[s] !== DROP) continue;
      const f = m.fighters[s];
      if (fallsOn[s] >= 0 && fallsOn[s] !== fallsOn[1 - s]) layItem(m.items[fallsOn[s]], f.weapon, f.x, f.weaponLeft);
      f.weapon = f.weaponLeft = 0;
    }
  }
  function runItems() {
    m.items.forEach((item, i) => {
      if (item.ticks === 0 || --item.ticks > 0) return;
      if (item.kind > 0) return clearItem(item);
      const kind = SPEAR + Number(draw(m) >> 63n), x = r.item_near + (r.item_far - r.item_near) * drawUnit(m);
      layItem(item, kind, i === 0 ? -x : x, r.weapon_ticks);
    });
  }
  function readBlow(a, b) {
    if (a.move < 0 || a.moveHit || b.respawn > 0 || b.invulnerable > 0 || b.dodge > 0) return null;
    const s = strikes[a.move];
    if (a.moveTick < s.startup || a.moveTick >= s.startup + s.active) return null;
    if (abs(a.x + a.facing * s.offset_x - b.x) > s.half_width + r.body_half_width) return null;
    if (abs(a.y + s.offset_y - (b.y + r.body_half_height)) > s.half_height + r.body_half_height) return null;
    const power = 1 + r.charge_power * a.charge / r.max_charge, row = b.stun > 0 ? b.combo : 0, damage = s.damage * power;
    const speed = (s.knockback + s.growth * (b.damage + damage) / 100) * power;
    const stun = s.stun + trunc(speed * r.stun_per_speed) - r.combo_decay * row;
    return { row, damage, vx: a.facing * s.angle_x * speed, vy: s.angle_y * speed, stun: min(r.max_stun, max(r.min_stun, stun)) };
  }
  function takeBlow(f, blow) {
    f.damage += blow.damage;
    f.vx = blow.vx;
    f.vy = blow.vy;
    if (f.support !== AIR) {
      if (f.vy < 0) f.vy = -f.vy * r.bounce;
      f.support = AIR;
    }
    f.stun = blow.stun;
    f.combo = blow.row + 1;
    endAttack(f);
    f.dash = f.turn = 0;
  }
  function place(f, x, y) {
    Object.assign(f, { x: f.side * x, y, vx: 0, vy: 0, damage: 0, facing: -f.side, support: y === 0 ? GROUND : AIR });
    Object.assign(f, { jumpsLeft: r.air_jumps, recoveryLeft: 1, combo: 0, weapon: 0, weaponLeft: 0, runTicks: 0, keys: 0 });
    Object.assign(f, { stun: 0, invulnerable: 0, dodge: 0, dash: 0, direction: 0, dodgeCooldown: 0, turn: 0, respawn: 0 });
    endAttack(f);
  }
  function exchangeBlows() {
    const f = m.fighters, blows = seats.map((s) => readBlow(f[s], f[1 - s]));
    for (const s of seats) if (blows[s]) f[s].moveHit = 1;
    f.forEach(runTimers);
    for (const s of seats) if (blows[s]) takeBlow(f[1 - s], blows[s]);
  }
  function matchTick(keys) {
    const oldPlatform = m.platformY, f = m.fighters, wish = [], reach = [];
    movePlatform();
    for (const s of seats) {
      reach[s] = groundOf(f[s].x);
      wish[s] = fighterTick(f[s], keys[s], oldPlatform);
    }
    if (wish[0] !== NO_WISH || wish[1] !== NO_WISH) grantWishes(wish, reach);
    exchangeBlows();
    const isOut = f.map((x) => x.respawn === 0 && (abs(x.x) > r.blast_side || x.y > r.blast_top || x.y < r.blast_bottom));
    for (const s of seats) {
      if (!isOut[s]) continue;
      f[s].stocks -= 1;
      place(f[s], r.respawn_x, r.respawn_y);
      f[s].respawn = r.respawn_ticks;
    }
    runItems();
    m.tick += 1;
  }
  function start(seed) {
    m = { rng: mix(BigInt(seed) ^ 0xd1b54a32d192ed03n), tick: 0 };
    const side = draw(m) >> 63n ? 1 : -1;
    m.fighters = [side, -side].map((own) => {
      const f = { side: own, stocks: r.stocks };
      draw(m); // its bot's generator
      place(f, r.spawn_x, 0);
      return f;
    });
    m.platformY = r.platform_low + (r.platform_high - r.platform_low) * drawUnit(m);
    m.platformDirection = draw(m) >> 63n ? 1 : -1;
    m.items = seats.map(() => ({ x: 0, left: 0, kind: 0, ticks: r.weapons ? drawBetween(m, r.item_first_min, r.item_first_max) : 0 }));
  }

  // What a seat sees (view.pxi).
  const signOfKind = (weapon) => (weapon === SPEAR ? -1 : weapon === HAMMER ? 1 : 0);
  function itemSeen(f) {
    let near = null;
    for (const item of m.items) if (item.kind > 0 && (!near || abs(item.x - f.x) < abs(near.x - f.x))) near = item;
    if (!near) return [0, 0];
    const d = near.x - f.x;
    return [d / (abs(d) + 2), signOfKind(near.kind)];
  }
  function strikeSeen(f) {
    const s = strikes[f.move];
    if (!s) return [0, 0, 0, 0, 0, 0];
    const active = min(s.active, max(0, s.startup + s.active - f.moveTick));
    const recovery = min(s.recovery, s.startup + s.active + s.recovery - f.moveTick);
    return [clip(max(0, s.startup - f.moveTick) / 20), clip((f.moveHit ? -active : active) / 20), clip(recovery / 20),
      s.weight, s.aim, clip(f.charge / r.max_charge)];
  }
  function half(seat) {
    const f = m.fighters[seat], e = m.fighters[1 - seat], dx = e.x - f.x, dy = e.y - f.y, k = f.keys;
    const bits = (...pairs) => pairs.reduce((sum, [key, value]) => sum + (k & key ? value : 0), 0);
    return [
      clip(f.x / r.blast_side), clip(f.y / r.blast_top), clip(f.vx / 20), clip(f.vy / 20), f.facing,
      [0, 1, 0.5][f.support], dx / (abs(dx) + 2), dy / (abs(dy) + 2), clip(f.damage / 150), clip(f.stocks / r.stocks),
      clip(((f.support !== AIR ? 1 : 0) + f.jumpsLeft) / (r.air_jumps + 1)), f.recoveryLeft, clip(f.stun / r.max_stun),
      clip((f.respawn > 0 ? -f.respawn : max(f.invulnerable, f.dodge)) / 60), clip(f.dodgeCooldown / r.dodge_cooldown_air),
      signOfKind(f.weapon), clip(f.weaponLeft / r.weapon_ticks), ...strikeSeen(f), ...itemSeen(f),
      clip(m.platformY / 2), m.platformDirection, clip((r.time_limit - m.tick) / r.time_limit), directionOf(k),
      bits([UP, 1]) - bits([DOWN, 1]), bits([LIGHT, 1], [HEAVY, 2]) / 3, bits([JUMP, 1], [DODGE, 2], [PICKUP, 4], [TAUNT, 8]) / 15,
    ];
  }
  function ending() {
    const [a, b] = m.fighters;
    if (a.stocks > 0 && b.stocks > 0 && m.tick < r.time_limit) return null;
    if (a.stocks !== b.stocks) return a.stocks > b.stocks ? 0 : 1;
    return a.stocks > 0 && a.damage !== b.damage ? (a.damage < b.damage ? 0 : 1) : -1;
  }

  return {
    isLive: true, ticks: r.ticks_per_step, seconds: dt, keys: data.keys, keyboard: data.keyboard, start, ending,
    newSeed: () => crypto.getRandomValues(new BigUint64Array(1))[0],
    toAct: () => [true, true],
    observe: (seat) => Float32Array.from([...half(seat), ...half(1 - seat)]),
    mask: (seat) => Array.from({ length: NUM_KEYS }, (_, i) => (legalKeys(m.fighters[seat]) >> i) & 1),
    // What both seats hold for the ticks of a step, a list of 0 and 1 each (bots.pxi: decide).
    decide(actions) {
      const bits = actions.map((own) => own.reduce((keys, held, i) => keys | (held << i), 0));
      pressed = seats.map((s) => bits[s] & (legalKeys(m.fighters[s]) | FRESH_ONLY));
    },
    tick: () => matchTick(pressed),
    frame: () => frame(m, data),
  };
}
