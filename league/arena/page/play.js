(function () {
  const at = (id) => document.getElementById(id), held = new Set(), picture = at("picture"), brush = picture.getContext("2d");
  let game = null, shown = null, image = null, isOn = false, isOver = false, shownAt = 0;

  async function ask(path, body) {
    const reply = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const found = await reply.json();
    if (!reply.ok) throw new Error(found.error || "the command has ended");
    return found;
  }

  function element(name, words, parent) {
    const made = document.createElement(name);
    made.textContent = words;
    parent.appendChild(made);
    return made;
  }

  function resize() {
    const ratio = window.devicePixelRatio || 1, wide = at("screen").clientWidth || 960;
    picture.width = Math.round(wide * ratio);
    picture.height = Math.round(wide * ratio / (game ? game.aspect : 16 / 9));
  }

  function take(frames) {
    shownAt = performance.now();
    if (frames.kind === "shapes") shown = { draw: painter(picture, frames), count: frames.list.length };
    else if (frames.kind === "pictures") {
      image = new Image();
      image.src = frames.list[frames.list.length - 1];
    } else at("lines").textContent = frames.list[frames.list.length - 1];
  }

  function draw(time) {
    if (shown) {
      const pace = game.isLive ? game.seconds : Math.max(0.45, Math.min(1, game.seconds)), passed = Math.max(0, (time - shownAt) / 1000 / pace);
      const step = Math.min(shown.count - 1, game.isLive ? passed : Math.floor(passed));
      const index = Math.floor(step);
      shown.draw(index, step - index, false);
    } else if (image && image.complete && image.naturalWidth) {
      brush.fillStyle = "#000";
      brush.fillRect(0, 0, picture.width, picture.height);
      const scale = Math.min(picture.width / image.naturalWidth, picture.height / image.naturalHeight);
      const w = image.naturalWidth * scale, h = image.naturalHeight * scale;
      brush.drawImage(image, (picture.width - w) / 2, (picture.height - h) / 2, w, h);
    }
    requestAnimationFrame(draw);
  }

  function offer(choices) {
    at("choices").replaceChildren();
    choices.forEach(([words, action]) => {
      const button = element("button", words, at("choices"));
      button.type = "button";
      button.addEventListener("click", () => step(action));
    });
  }

  function got(found) {
    take(found.frames);
    offer(found.choices);
    document.body.dataset.step = String(found.step);
    if (!found.ending) return;
    isOver = true;
    isOn = false;
    at("ending").textContent = found.ending;
    at("ending").hidden = false;
    at("about").textContent = found.stored;
    at("play").hidden = true;
    document.body.dataset.over = "yes";
  }

  async function step(action) {
    try {
      at("choices").querySelectorAll("button").forEach((button) => (button.disabled = true));
      got(await ask("step", { action }));
    } catch (error) {
      isOn = false;
      at("problem").textContent = error.message;
    }
  }

  async function live() {
    while (isOn && !isOver) {
      const begun = performance.now();
      await step(game.keys.map((key) => (held.has(game.keyboard[key]) ? 1 : 0)));
      await new Promise((done) => setTimeout(done, Math.max(0, game.seconds * 1000 - (performance.now() - begun))));
    }
  }

  function name(event) { return event.key.length === 1 ? event.key.toLowerCase() : event.key; }

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !game || !game.isLive) return;
    if (Object.values(game.keyboard).includes(name(event))) {
      event.preventDefault();
      if (event.type === "keydown") held.add(name(event));
      else held.delete(name(event));
    }
  }

  function toggle() {
    isOn = !isOn;
    at("play").textContent = isOn ? "pause" : "go on";
    at("play").blur();
    if (isOn) live();
  }

  async function begin() {
    game = await ask("begin", {});
    at("name0").textContent = game.names[0];
    at("name1").textContent = game.names[1];
    at("about").textContent = game.about;
    at("play").hidden = !game.isLive;
    at("play").addEventListener("click", toggle);
    for (const key of game.isLive ? game.keys : []) {
      const shownKey = { " ": "space", ArrowUp: "\u2191", ArrowDown: "\u2193", ArrowLeft: "\u2190", ArrowRight: "\u2192" }[game.keyboard[key]];
      element("kbd", (shownKey || game.keyboard[key]) + " " + key, at("keys"));
    }
    resize();
    got(game);
    window.addEventListener("resize", resize);
    window.addEventListener("keydown", press);
    window.addEventListener("keyup", press);
    window.addEventListener("blur", () => held.clear());
    requestAnimationFrame(draw);
    document.body.dataset.ready = "yes";
  }

  begin().catch((error) => (at("problem").textContent = error.message));
})();
