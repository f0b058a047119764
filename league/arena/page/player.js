(function () {
  const SEATS = ["#56b4e9", "#f08c14"], PAPER = "#f2f3ee", DIM = "#6d7488", AHEAD = 3, WINDOW = 6;
  const at = (id) => document.getElementById(id);
  const picture = at("picture"), brush = picture.getContext("2d");
  let match = null, painted = null, now = 0, isPlaying = false, last = 0, images = [], strips = [];

  function fail(words) { at("problem").textContent = words; }

  async function unpacked() {
    const bytes = Uint8Array.from(atob(at("match").textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  function drawPicture(index) {
    const image = images[index];
    if (!image.complete || !image.naturalWidth) return;
    const scale = Math.min(picture.width / image.naturalWidth, picture.height / image.naturalHeight);
    const w = image.naturalWidth * scale, h = image.naturalHeight * scale;
    brush.fillStyle = "#000";
    brush.fillRect(0, 0, picture.width, picture.height);
    brush.drawImage(image, (picture.width - w) / 2, (picture.height - h) / 2, w, h);
  }

  function element(name, words, parent, kind) {
    const made = document.createElement(name);
    if (words) made.textContent = words;
    if (kind) made.className = kind;
    parent.appendChild(made);
    return made;
  }

  function strip(parent, words, height, draw) {
    const head = element("h3", "", parent);
    element("span", words, head);
    const told = element("output", "", head), canvas = element("canvas", "", parent);
    strips.push(() => {
      const ratio = window.devicePixelRatio || 1, wide = canvas.clientWidth || 260;
      if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(wide * ratio);
        canvas.height = Math.round(height * ratio);
        canvas.style.height = height + "px";
      }
      const ink = canvas.getContext("2d");
      ink.setTransform(ratio, 0, 0, ratio, 0, 0);
      ink.clearRect(0, 0, wide, height);
      told.textContent = draw(ink, wide, height) || "";
    });
    return canvas;
  }

  function choices(panel, seat, colour) {
    const rows = seat.labels.length, row = rows > 14 ? 13 : 17, left = Math.min(96, 14 + 7 * Math.max(...seat.labels.map((x) => x.length)));
    const hasChances = seat.chances.some(Boolean), title = hasChances ? "chances, and what was played" : "what was played";
    strip(panel, title, rows * row + 14, (ink, wide, high) => {
      const right = hasChances ? 38 : 4, room = wide - left - right, span = (AHEAD + WINDOW) / match.dt;
      const cell = Math.max(1, room / Math.max(1, Math.min(span, match.steps))), back = Math.min(match.steps, span) * (WINDOW / (WINDOW + AHEAD));
      const here = Math.floor(now), first = Math.max(0, Math.floor(now - back)), end = Math.min(match.steps, first + Math.ceil(room / cell));
      ink.font = "11px system-ui, sans-serif";
      ink.textBaseline = "middle";
      for (let k = 0; k < rows; k++) {
        const y = k * row;
        ink.fillStyle = k % 2 ? "#1f2535" : "#232a3d";
        ink.fillRect(left, y, room, row - 1);
        for (let t = first; t < end; t++) {
          const chances = seat.chances[t], played = seat.played[t], x = left + (t - first) * cell;
          if (chances && chances[k]) {
            ink.globalAlpha = (0.12 + 0.88 * chances[k] / 100) * (t > here ? 0.45 : 1);
            ink.fillStyle = colour;
            ink.fillRect(x, y + row - 1 - (row - 1) * chances[k] / 100, Math.max(1, cell - 0.4), (row - 1) * chances[k] / 100);
          }
          if (played && played[k]) {
            ink.globalAlpha = t > here ? 0.45 : 1;
            ink.fillStyle = PAPER;
            ink.fillRect(x, y + 2, Math.max(1.5, cell - 0.6), 3);
          }
          ink.globalAlpha = 1;
        }
        const isDown = seat.played[here] && seat.played[here][k];
        ink.fillStyle = isDown ? PAPER : DIM;
        ink.textAlign = "left";
        ink.fillText(seat.labels[k], 2, y + row / 2, left - 6);
        if (hasChances && seat.chances[here]) {
          ink.textAlign = "right";
          ink.fillText(seat.chances[here][k] + " %", wide - 2, y + row / 2);
        }
      }
      const x = left + (now - first) * cell;
      ink.fillStyle = PAPER;
      ink.fillRect(x, 0, 1, rows * row);
      ink.fillStyle = DIM;
      ink.textAlign = "left";
      ink.fillText((first * match.dt).toFixed(1) + " s", left, high - 6);
      ink.textAlign = "right";
      ink.fillText((end * match.dt).toFixed(1) + " s", left + room, high - 6);
    });
  }

  function values(panel, seat, colour) {
    const known = seat.values.filter((x) => x !== null);
    if (!known.length) return;
    const low = Math.min(0, ...known), high = Math.max(0, ...known), range = high - low || 1;
    const canvas = strip(panel, "value: what it expects from here", 64, (ink, wide, tall) => {
      const y = (v) => tall - 4 - (tall - 8) * (v - low) / range, x = (t) => 1 + (wide - 2) * t / Math.max(1, match.steps - 1);
      ink.fillStyle = "#232a3d";
      ink.fillRect(0, 0, wide, tall);
      ink.fillStyle = "#39415a";
      ink.fillRect(0, y(0), wide, 1);
      ink.strokeStyle = colour;
      ink.lineWidth = 1.5;
      ink.beginPath();
      seat.values.forEach((v, t) => { if (v !== null) ink.lineTo(x(t), y(v)); });
      ink.stroke();
      ink.fillStyle = PAPER;
      ink.fillRect(x(now), 0, 1, tall);
      let t = Math.floor(now);
      while (t > 0 && seat.values[t] === null) t--;
      return seat.values[t] === null ? "" : seat.values[t].toFixed(2);
    });
    canvas.addEventListener("click", (event) => go((match.steps - 1) * event.offsetX / canvas.clientWidth));
  }

  function attention(panel, seat, colour) {
    if (!seat.attention.some((x) => x && x.length)) return;
    const most = Math.max(...seat.attention.filter(Boolean).map((x) => x.length)), seconds = most * match.dt;
    const span = match.inTurns ? most + " looks" : seconds.toFixed(1) + " s";
    strip(panel, "what the encoder attends to, last " + span, 58, (ink, wide, tall) => {
      let step = Math.floor(now);
      while (step > 0 && !seat.attention[step]) step--;
      const here = seat.attention[step], room = tall - 14;
      ink.fillStyle = "#232a3d";
      ink.fillRect(0, 0, wide, room);
      if (here) {
        const top = Math.max(3 / most * 100, ...here) || 1, cell = wide / most;
        here.forEach((share, i) => {
          const x = wide - (here.length - i) * cell;
          ink.globalAlpha = 0.25 + 0.75 * share / top;
          ink.fillStyle = colour;
          ink.fillRect(x, room - room * share / top, Math.max(1, cell - 1), room * share / top);
        });
        ink.globalAlpha = 1;
      }
      ink.font = "11px system-ui, sans-serif";
      ink.textBaseline = "alphabetic";
      ink.fillStyle = DIM;
      ink.textAlign = "left";
      ink.fillText(span + " ago", 0, tall - 2);
      ink.textAlign = "right";
      ink.fillText("now", wide, tall - 2);
    });
  }

  function panels() {
    match.seats.forEach((seat, i) => {
      const panel = at("seat" + i);
      element("h2", seat.name, panel, "seat" + i);
      if (seat.note) element("p", seat.note, panel);
      values(panel, seat, SEATS[i]);
      if (seat.labels.length && (seat.chances.some(Boolean) || seat.played.some(Boolean))) choices(panel, seat, SEATS[i]);
      attention(panel, seat, SEATS[i]);
    });
  }

  function show() {
    const index = Math.min(match.steps - 1, Math.floor(now)), share = Math.min(1, now - index);
    if (painted) painted(index, share, at("boxes").checked);
    else if (match.frames.kind === "pictures") drawPicture(Math.min(index, images.length - 1));
    else at("lines").textContent = match.frames.list[index];
    for (const draw of strips) draw();
    at("scrub").value = String(index);
    at("clock").textContent = (now * match.dt).toFixed(1) + " of " + (match.steps * match.dt).toFixed(1) + " s";
    at("ending").hidden = index < match.steps - 1;
    document.body.dataset.step = String(index);
  }

  function go(step) {
    now = Math.max(0, Math.min(match.steps - 1, step));
    show();
  }

  function play(wanted) {
    if (wanted && now >= match.steps - 1) now = 0;
    isPlaying = wanted;
    at("play").textContent = wanted ? "\u275A\u275A" : "\u25B6";
    at("play").setAttribute("aria-label", wanted ? "pause" : "play");
    document.body.dataset.playing = wanted ? "yes" : "no";
    last = 0;
    if (wanted) requestAnimationFrame(tick);
  }

  function tick(time) {
    if (!isPlaying) return;
    const passed = last ? Math.min(0.25, (time - last) / 1000) : 0;
    last = time;
    now += passed * Number(at("speed").value) / match.dt;
    if (now >= match.steps - 1) {
      now = match.steps - 1;
      play(false);
    }
    show();
    if (isPlaying) requestAnimationFrame(tick);
  }

  function resize() {
    const ratio = window.devicePixelRatio || 1, wide = at("screen").clientWidth || 960, share = match.frames.aspect;
    picture.width = Math.round(wide * ratio);
    picture.height = Math.round(wide * ratio / share);
    show();
  }

  function listen() {
    at("play").addEventListener("click", () => play(!isPlaying));
    at("back").addEventListener("click", () => { play(false); go(Math.ceil(now) - 1); });
    at("on").addEventListener("click", () => { play(false); go(Math.floor(now) + 1); });
    at("scrub").addEventListener("input", () => { play(false); go(Number(at("scrub").value)); });
    at("boxes").addEventListener("change", show);
    window.addEventListener("resize", resize);
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
      const keys = { " ": "play", ArrowLeft: "back", ArrowRight: "on" };
      if (keys[event.key]) {
        event.preventDefault();
        at(keys[event.key]).click();
      } else if (event.key === "b" || event.key === "B") at("boxes").click();
    });
  }

  function begin(found) {
    match = found;
    at("name0").textContent = match.seats[0].name;
    at("name1").textContent = match.seats[1].name;
    at("about").textContent = match.about;
    at("ending").textContent = match.ending;
    at("scrub").max = String(match.steps - 1);
    at("boxing").hidden = !match.frames.hasBoxes;
    at("help").textContent += match.frames.hasBoxes ? ", B shows hit boxes" : "";
    at("boxes").checked = match.boxes;
    at("speed").value = "1";
    if (match.frames.kind === "shapes") painted = painter(picture, match.frames);
    if (match.frames.kind === "pictures") {
      images = match.frames.list.map((source) => {
        const image = new Image();
        image.onload = () => show();
        image.src = source;
        return image;
      });
    }
    panels();
    listen();
    resize();
    document.body.dataset.ready = "yes";
  }

  if (typeof DecompressionStream === "undefined") fail("this browser is too old to unpack the match; open the page in a newer one");
  else unpacked().then(begin).catch((error) => fail("the match in this page is damaged: " + error.message));
})();
