// The page of `league export --format page`: a person in seat 0 against the agent, without a server behind it.
const RUNTIME = "ort.wasm.bundle.min.mjs", NEXT = "next_", PERSON = 0, AGENT = 1, LEAST_LIKELY = -1e8;
const at = (id) => document.getElementById(id), held = new Set(), picture = at("picture");
const SHOWN = { " ": "space", ArrowUp: "\u2191", ArrowDown: "\u2193", ArrowLeft: "\u2190", ArrowRight: "\u2192" };
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
let about, game, ort, session, opponent, isOn = false, answer = null;

// One seat's network with its memory, as snapshots/league_agent.py has it.
class Agent {
  constructor() {
    this.kinds = { float32: Float32Array, bool: Uint8Array, int64: BigInt64Array };
    this.reset();
  }

  reset() {
    this.inputs = {};
    for (const { name, type, shape } of session.inputMetadata) {
      const sizes = shape.map((size) => (typeof size === "number" ? size : 1));
      this.inputs[name] = new ort.Tensor(type, new this.kinds[type](sizes.reduce((a, b) => a * b, 1)), sizes);
    }
  }

  // The log-probabilities of a decision: of each choice, or of each key that it is pressed.
  async logProbs(obs, mask) {
    this.inputs.obs = new ort.Tensor("float32", obs, [1, obs.length]);
    if (this.inputs.mask) this.inputs.mask = new ort.Tensor("bool", Uint8Array.from(mask), [1, mask.length]);
    const outputs = await session.run(this.inputs);
    for (const name of Object.keys(this.inputs)) if (outputs[NEXT + name]) this.inputs[name] = outputs[NEXT + name];
    return outputs.log_probs.data;
  }
}

// The action for log-probabilities, drawn or the likeliest one.
function choose(logProbs, isGreedy) {
  if (about.isKeys) return Array.from(logProbs, (x) => +(Math.exp(x) > (isGreedy ? 0.5 : Math.random())));
  const scores = Array.from(logProbs, (x) => x - (isGreedy ? 0 : Math.log(-Math.log(Math.random()))));
  return [scores.indexOf(Math.max(...scores))];
}

function draw() {
  const { view, background, shapes } = game.frame(), wide = at("screen").clientWidth * (window.devicePixelRatio || 1);
  const aspect = (view[2] - view[0]) / (view[1] - view[3]);
  if (picture.width !== Math.round(wide)) [picture.width, picture.height] = [Math.round(wide), Math.round(wide / aspect)];
  painter(picture, { table: shapes, background, list: [[view, shapes.map((_, i) => i)]] })(0, 0, false);
}

function begin() {
  game.start(game.newSeed());
  opponent.reset();
  at("ending").hidden = true;
  document.body.dataset.over = "";
  draw();
}

function end(winner) {
  isOn = false;
  at("ending").textContent = winner < 0 ? "a draw" : winner === PERSON ? "you win" : "the agent wins";
  at("ending").hidden = false;
  at("play").textContent = "play again";
  document.body.dataset.over = "yes";
}

// A person's decision: the keys held now, or the choice that is waited for.
function decided() {
  if (game.isLive) return game.keys.map((key) => +held.has(key));
  return new Promise((done) => {
    answer = done;
    offer();
  }).finally(() => {
    answer = null;
    offer();
  });
}

async function match() {
  let next = performance.now();
  while (isOn && game.ending() === null) {
    const acts = game.toAct(), actions = [null, null];
    if (acts[AGENT]) actions[AGENT] = choose(await opponent.logProbs(game.observe(AGENT), game.mask(AGENT)), false);
    if (acts[PERSON]) actions[PERSON] = await decided();
    game.decide(actions);
    for (let tick = 0; tick < game.ticks && game.ending() === null; tick++) {
      next = Math.max(performance.now(), next + 1000 * game.seconds);
      if (game.isLive || acts[AGENT]) await sleep(next - performance.now());
      game.tick();
      draw();
    }
  }
  if (game.ending() !== null) end(game.ending());
}

function toggle() {
  if (game.ending() !== null) begin();
  isOn = game.isLive ? !isOn : true;
  at("play").textContent = isOn ? "pause" : "go on";
  at("play").hidden = isOn && !game.isLive;
  at("play").blur();
  if (!isOn) return;
  at("check").disabled = true;
  match().catch(fail).finally(() => (at("play").hidden = at("check").disabled = false));
}

function element(name, words, parent) {
  const made = document.createElement(name);
  made.textContent = words;
  parent.appendChild(made);
  return made;
}

function offer() {
  at("choices").replaceChildren();
  for (const { words, action, isFree } of game.choices()) {
    const button = element("button", words, at("choices"));
    button.disabled = !answer || !isFree;
    button.addEventListener("click", () => answer && answer(action));
  }
}

function listen() {
  const names = Object.fromEntries(game.keys.map((key) => [game.keyboard[key], key]));
  const press = (event) => {
    const key = names[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!key || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (event.type === "keydown") held.add(key);
    else held.delete(key);
  };
  for (const key of game.keys) {
    const button = element("button", (SHOWN[game.keyboard[key]] || game.keyboard[key]) + " " + key, at("keys"));
    button.className = "key";
    button.addEventListener("pointerdown", () => held.add(key));
    for (const type of ["pointerup", "pointerleave", "pointercancel"]) button.addEventListener(type, () => held.delete(key));
  }
  picture.addEventListener("click", (event) => {
    const choice = !game.isLive && game.choices()[game.choiceAt(event.offsetX / picture.clientWidth)];
    if (answer && choice && choice.isFree) answer(choice.action);
  });
  window.addEventListener("keydown", press);
  window.addEventListener("keyup", press);
  window.addEventListener("blur", () => held.clear());
  window.addEventListener("resize", draw);
  at("play").addEventListener("click", toggle);
  at("check").addEventListener("click", () => check().catch(fail));
}

const numbers = (text) => new Float32Array(Uint8Array.from(atob(text), (x) => x.charCodeAt(0)).buffer);

// Plays matches recorded in Python again: rules and network must give what they gave there.
async function check() {
  const found = { decisions: 0, actions: 0, observations: 0, apart: 0 }, { matches } = await (await fetch("check.json")).json();
  at("check").disabled = at("play").disabled = true;
  for (const { seed, winner, steps } of matches) {
    const agents = [new Agent(), new Agent()];
    game.start(BigInt(seed));
    for (const { seats, actions } of steps) {
      for (const { seat, mask, likeliest, ...packed } of seats) {
        const obs = numbers(packed.obs), logProbs = numbers(packed.logProbs);
        const seen = game.observe(seat), legal = game.mask(seat), said = await agents[seat].logProbs(seen, legal);
        const isSame = obs.every((x, i) => x === seen[i]) && mask.every((x, i) => x === legal[i]) && obs.length === seen.length;
        found.decisions += 1;
        found.observations += isSame && game.toAct()[seat];
        found.actions += String(choose(said, true)) === String(likeliest);
        const apart = logProbs.map((x, i) => Math.abs(Math.max(x, LEAST_LIKELY) - Math.max(said[i], LEAST_LIKELY)));
        found.apart = Math.max(found.apart, ...apart);
      }
      game.decide(actions);
      for (let tick = 0; tick < game.ticks && game.ending() === null; tick++) game.tick();
      at("checked").textContent = found.decisions + " decisions";
    }
    if (game.ending() !== winner) throw new Error(`seed ${seed}: ${game.ending()} won here, ${winner} in Python`);
  }
  const { decisions, actions, observations, apart } = found;
  at("checked").textContent = `${matches.length} matches, ${decisions} decisions: ${observations} equal observations, `
    + `${actions} equal actions, log-probabilities within ${apart.toExponential(1)}`;
  document.body.dataset.checked = JSON.stringify(found);
  at("check").disabled = at("play").disabled = false;
  at("play").textContent = "begin";
  begin();
}

function fail(error) {
  isOn = false;
  at("problem").textContent = error.message;
}

async function open() {
  about = await (await fetch("game.json")).json();
  game = (await import("./" + about.script)).open(about.data);
  at("name").textContent = document.title = about.agent;
  at("about").textContent = about.words;
  try {
    ort = await import("./" + RUNTIME);
  } catch {
    throw new Error(`${RUNTIME} is not here; see docs/guides/export.md for the npm command`);
  }
  ort.env.wasm.numThreads = 1;
  session = await ort.InferenceSession.create("agent.onnx", { executionProviders: ["wasm"] });
  opponent = new Agent();
  listen();
  begin();
  if (!game.isLive) {
    document.body.className = "board";
    offer();
  }
  at("play").disabled = at("check").disabled = false;
  at("problem").textContent = "";
  document.body.dataset.ready = "yes";
}

open().catch(fail);
