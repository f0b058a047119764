(function () {
  const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a6fd1", "#7a8b00", "#b8475b", "#4f7f8f", "#a0743a", "#5c6478"];
  const BRIGHT = ["#4ba3e3", "#f0b429", "#2fc794", "#e39ac6", "#f07f3c", "#7cc8f5", "#ad97ee", "#b3c52e", "#e0788b", "#7fb4c6", "#cfa06a", "#9aa0b2"];
  const EVERY = 5000, isLive = document.body.dataset.live === "yes";
  const isTouch = window.matchMedia("(pointer: coarse)").matches;
  const at = (id) => document.getElementById(id);
  const UNSEEN = { stroke: "transparent", width: 0, points: { show: false } }; // the end of a band
  const hidden = new Set(), charts = new Map(), queue = [];
  const sizes = new ResizeObserver((seen) => { for (const { target, contentRect } of seen) if (charts.has(target) && contentRect.width) charts.get(target).setSize({ width: contentRect.width, height: target.clientHeight }); });
  let shown = null, opened = 0;

  // The end of a name tells snapshots of a run apart.
  function short(words, most) { return words.length > most ? words.slice(0, most - 9) + "\u2026" + words.slice(-8) : words; }
  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }
  function isDark() { return window.matchMedia("(prefers-color-scheme: dark)").matches; }
  function ink(i) { const found = isDark() ? BRIGHT : COLOURS; return found[i % found.length]; }
  function pale(hex, share) {
    const n = parseInt(hex.slice(1), 16);
    return "rgba(" + (n >> 16) + "," + ((n >> 8) & 255) + "," + (n & 255) + "," + share + ")";
  }
  function number(value, digits) {
    if (value === null || value === undefined) return "\u2013";
    const size = Math.abs(value);
    if (digits !== undefined) return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits, signDisplay: "negative" });
    return size !== 0 && (size < 0.001 || size >= 1e7) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  }

  function element(name, words, parent, kind) {
    const made = document.createElement(name);
    if (words) made.textContent = words;
    if (kind) made.className = kind;
    if (parent) parent.appendChild(made);
    return made;
  }

  // A child that is made once and found again when the page is drawn with newer numbers.
  function keyed(parent, key, name, kind) {
    for (const child of parent.children) if (child.dataset.key === key) { child.dataset.used = "yes"; return child; }
    const made = element(name, "", parent, kind);
    made.dataset.key = key;
    made.dataset.used = "yes";
    return made;
  }
  function begin(parent) { for (const child of parent.children) delete child.dataset.used; }
  function end(parent) { for (const child of [...parent.children]) if (!child.dataset.used) child.remove(); else parent.appendChild(child); }

  function table(parent, heads, rows) {
    parent.replaceChildren();
    parent.classList.add("scroll");
    const made = element("table", "", parent), head = element("tr", "", element("thead", "", made)), body = element("tbody", "", made);
    for (const [words, isNumber] of heads) element("th", words, head, isNumber ? "number" : "");
    for (const row of rows) {
      const line = element("tr", "", body);
      row.forEach((cell, i) => {
        const made = element("td", "", line, heads[i][1] ? "number" : "name");
        if (cell instanceof Node) made.appendChild(cell); else made.textContent = cell;
      });
    }
  }

  // The places of a series that have a value.
  function known(series) { return series.x.map((_, k) => k).filter((k) => series.y[k] !== null); }
  function told(series, k) {
    const low = series.low && series.low[k], high = series.high && series.high[k];
    const band = low === null || low === undefined || low === high ? "" : " [" + number(low) + " to " + number(high) + "]";
    return number(series.y[k]) + band;
  }
  function steps(value) {
    const size = Math.abs(value);
    return size >= 1e6 ? number(value / 1e6) + "M" : size >= 1e3 ? number(value / 1e3) + "k" : number(value);
  }

  // A value of an axis whose values are `apart`.
  function level(value, apart) {
    const digits = Math.max(0, -Math.floor(Math.log10(apart) + 1e-9));
    const size = Math.abs(value);
    if (size === 0 || size >= 1e5) return steps(value);
    return size < 0.01 && digits > 4 ? value.toExponential(2) : number(value, Math.min(digits, 8));
  }

  // A note beside the pointer.
  function tip(words, x, y) {
    const made = at("tip");
    made.textContent = words;
    made.hidden = !words;
    if (!words) return;
    const left = Math.min(x + 14, document.documentElement.clientWidth - made.offsetWidth - 6);
    made.style.left = Math.max(left, 4) + "px";
    made.style.top = (y + 18 + made.offsetHeight > window.innerHeight ? y - made.offsetHeight - 10 : y + 18) + "px";
  }

  // Curves as uPlot has them: columns over all steps, with bands between two of them.
  function lines(panel, colours) {
    const tables = [], series = [{}], bands = [], tracks = [];
    const share = panel.series.filter((one) => one.low).length > 2 ? 0.09 : 0.16;
    panel.series.forEach((one, i) => {
      if (one.line && hidden.has(one.line)) return;
      const hue = one.line ? colours[one.line] : ink(i), rows = known(one);
      const columns = [rows.map((k) => one.x[k]), rows.map((k) => one.y[k])];
      if (!rows.length) return;
      series.push({ stroke: hue, width: one.faint ? 1 : 2, alpha: one.faint ? 0.35 : 1, points: { show: rows.length < 30 && !one.faint, size: rows.length === 1 ? 9 : 5, fill: hue } });
      if (one.low) {
        columns.push(rows.map((k) => one.low[k] ?? one.y[k]), rows.map((k) => one.high[k] ?? one.y[k]));
        series.push(UNSEEN, UNSEEN);
        bands.push({ series: [series.length - 1, series.length - 2], fill: pale(hue, share) });
      }
      tables.push(columns);
      if (!one.faint) tracks.push({ one, rows, hue });
    });
    return { data: tables.length > 1 ? uPlot.join(tables) : tables[0], series, bands, tracks };
  }

  // Parts of a whole: each lies on the sum of those before it.
  function stack(panel) {
    const x = [...new Set(panel.series.flatMap((one) => one.x))].sort((a, b) => a - b), data = [x, x.map(() => 0)], series = [{}, UNSEEN], bands = [];
    panel.series.forEach((one, i) => {
      const values = new Map(one.x.map((step, k) => [step, one.y[k] || 0])), below = data[data.length - 1];
      data.push(x.map((step, k) => below[k] + (values.get(step) || 0)));
      series.push({ stroke: ink(i), width: 0.5, points: { show: x.length === 1, size: 9, fill: ink(i) } });
      bands.push({ series: [series.length - 1, series.length - 2], fill: pale(ink(i), 0.75) });
    });
    return { data, series, bands, tracks: [] };
  }

  // The values that are shown: the panel's, else those that there are; how far the healthy band reaches does not count.
  function bounds(panel) {
    if (panel.range) return [panel.range[0], panel.range[1] + 0.02];
    const seen = panel.series.flatMap((one) => [...one.y, ...(one.low || []), ...(one.high || [])]).filter((y) => y !== null);
    const low = Math.min(...seen), high = Math.max(...seen), room = (high - low || Math.abs(high) || 1) * 0.08;
    return panel.series.some((one) => !one.line) ? [Math.min(0, low - (low < 0 ? room : 0)), Math.max(0, high + room)] : [low - room, high + room];
  }

  // What lies behind the curves: the healthy band, and a dotted line at the even value.
  function behind(u, panel) {
    const { left, top, width, height } = u.bbox, y = (value) => Math.min(Math.max(u.valToPos(value, "y", true), top), top + height);
    if (panel.healthy) {
      u.ctx.fillStyle = pale("#1d8a4b", 0.14);
      u.ctx.fillRect(left, y(panel.healthy[1]), width, y(panel.healthy[0]) - y(panel.healthy[1]));
    }
    if (panel.even !== null) stroke(u, colour("dim"), [2, 3], [[left, y(panel.even)], [left + width, y(panel.even)]]);
  }
  // The interval of a single point.
  function before(u, tracks) {
    for (const { one, rows, hue } of tracks) {
      if (!one.low || rows.length !== 1 || one.low[rows[0]] === null) continue;
      const x = u.valToPos(one.x[rows[0]], "x", true);
      stroke(u, hue, [], [one.low[rows[0]], one.high[rows[0]]].map((y) => [x, u.valToPos(y, "y", true)]));
    }
  }
  function stroke(u, hue, dash, [from, to]) {
    u.ctx.save();
    u.ctx.strokeStyle = hue;
    u.ctx.lineWidth = window.devicePixelRatio;
    u.ctx.setLineDash(dash.map((x) => x * window.devicePixelRatio));
    u.ctx.beginPath();
    u.ctx.moveTo(...from);
    u.ctx.lineTo(...to);
    u.ctx.stroke();
    u.ctx.restore();
  }

  // The note of what is nearest to the pointer; of a stack all parts at its step.
  function hover(u, panel, tracks) {
    const { left, top, idx } = u.cursor, box = u.over.getBoundingClientRect();
    let words = "", nearest = 30 * 30;
    if (left >= 0 && panel.kind === "stack" && idx !== null && idx !== undefined) {
      const step = u.data[0][idx], parts = panel.series.map((one) => [one.name, one.y[one.x.indexOf(step)] || 0]);
      words = "step " + number(step, 0) + parts.reverse().map(([name, share]) => "\n" + number(100 * share, 1) + " % " + short(name, 30)).join("");
    } else if (left >= 0) for (const { one, rows } of tracks) for (const k of rows) {
      const across = u.valToPos(one.x[k], "x") - left, down = u.valToPos(one.y[k], "y") - top, far = across * across + down * down;
      if (far < nearest) { nearest = far; words = short(one.name, 40) + "\n" + told(one, k) + " at step " + number(one.x[k], 0); }
    }
    tip(words, box.left + left, box.top + top);
  }

  function chart(plot, panel, colours, most) {
    const found = panel.kind === "stack" ? stack(panel) : lines(panel, colours), isSmall = plot.clientWidth < 200, [low, high] = bounds(panel);
    if (charts.has(plot)) charts.get(plot).destroy();
    charts.delete(plot);
    if (!found.data || !found.data[0].length) return;
    const first = found.data[0][0], last = found.data[0][found.data[0].length - 1], font = (isSmall ? 10 : 11) + "px system-ui, sans-serif";
    const axis = { stroke: colour("ink"), font, grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1, size: 4 }, gap: 3 };
    const options = {
      width: plot.clientWidth, height: plot.clientHeight, legend: { show: false }, series: found.series, bands: found.bands, padding: [8, isSmall ? 6 : 12, 0, 0],
      cursor: { drag: { x: !isTouch, y: false }, points: { show: false }, x: panel.kind === "stack", y: false },
      scales: { x: { time: false, range: (u, from, to) => first === last || (from === first && to === last) ? [-0.02 * most, 1.02 * most] : [from, to] }, y: { range: [low, high] } },
      axes: [
        { ...axis, space: isSmall ? 44 : 60, size: isSmall ? 24 : 26, label: isSmall ? undefined : "steps", labelSize: 16, labelGap: 0, labelFont: font, values: (u, ticks) => ticks.map((x) => Number.isInteger(x) ? steps(x) : "") },
        { ...axis, space: 28, values: (u, ticks, i, space, apart) => ticks.map((y) => level(y, apart)), size: (u, ticks) => 14 + 6 * Math.max(2, ...(ticks || []).map((words) => words.length)) },
      ],
      hooks: { drawClear: [(u) => behind(u, panel)], draw: [(u) => before(u, found.tracks)], setCursor: [(u) => hover(u, panel, found.tracks)] },
    };
    charts.set(plot, new uPlot(options, found.data, plot));
    sizes.observe(plot);
  }

  // Bars of scores, each with its interval as a line.
  function bars(plot, panel) {
    plot.replaceChildren();
    plot.className = "plot bars";
    const top = panel.range ? panel.range[1] : 1;
    const span = (parent, kind, from, to) => { const made = element("span", "", parent, kind); made.style.left = 100 * from / top + "%"; made.style.width = 100 * (to - from) / top + "%"; return made; };
    panel.series[0].x.forEach((name, k) => {
      element("div", name, plot, "bar-name");
      panel.series.forEach((series, i) => {
        if (series.y[k] === null) return;
        const row = element("div", "", plot, "bar"), track = element("div", "", row, "track");
        span(track, "fill", 0, series.y[k]).style.background = ink(i);
        span(track, "interval", series.low[k], series.high[k]);
        if (panel.even !== null) span(track, "even", panel.even, panel.even);
        element("span", number(series.y[k], 2) + " [" + number(series.low[k], 2) + " to " + number(series.high[k], 2) + "]", row);
      });
    });
  }

  function figure(parent, panel, colours, most, size) {
    const card = keyed(parent, panel.title, "div", "panel " + size);
    begin(card);
    keyed(card, "title", "h4", "").textContent = panel.title;
    const own = panel.series.filter((series) => !series.line);
    if (own.length) {
      const keys = keyed(card, "keys", "ul", "keys");
      keys.replaceChildren();
      own.forEach((series, i) => swatch(element("li", "", keys), series.name, ink(i)));
    }
    const plot = keyed(card, "plot", "div", "plot");
    if (panel.kind === "bars") bars(plot, panel);
    else queue.push(() => chart(plot, panel, colours, most));
    end(card);
  }

  function swatch(parent, words, hue) {
    const mark = element("span", "", parent, "swatch");
    mark.style.background = hue;
    element("span", words, parent);
  }

  // A colour between two, as red, green and blue from 0 to 255.
  function between(from, to, share) {
    const [a, b] = [from, to].map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
    return a.map((x, i) => Math.round(x + (b[i] - x) * share));
  }

  function payoff(parent, game) {
    const map = game.map, isShort = map.names.length > 14, keys = new Map(map.kept.map(([i, j, key]) => [i + " " + j, key]));
    parent.replaceChildren();
    parent.classList.add("scroll");
    const made = element("table", "", parent, "map"), head = element("tr", "", element("thead", "", made)), body = element("tbody", "", made), middle = isDark() ? "#3a4157" : "#eeeeea";
    element("th", "", head);
    for (const name of map.names) element("span", short(name, 24), element("th", "", head));
    map.names.forEach((name, i) => {
      const row = element("tr", "", body);
      element("th", short(name, 24), row);
      map.names.forEach((other, j) => {
        const cell = element("td", "", row), score = map.score[i][j], key = keys.get(i + " " + j);
        if (score === null) return;
        const rgb = score < 0.5 ? between(ink(4), middle, 2 * score) : between(middle, ink(0), 2 * score - 1);
        cell.style.background = "rgb(" + rgb + ")";
        cell.style.color = 0.3 * rgb[0] + 0.6 * rgb[1] + 0.1 * rgb[2] > 135 ? "#111" : "#fff";
        cell.dataset.tip = short(name, 40) + " against " + short(other, 40) + "\n" + map.judged + " " + number(score, 3) + " [" + number(map.lower[i][j], 3) + " to " + number(map.upper[i][j], 3) + "] of " + number(map.games[i][j], 0) + " games";
        const words = isShort ? "" : String(Math.round(100 * score));
        if (!key || !(isLive || shown.films[key])) { cell.textContent = words; return; }
        cell.dataset.tip += "\nclick: play a match";
        const button = element("button", words, cell);
        button.type = "button";
        button.setAttribute("aria-label", cell.dataset.tip);
        button.addEventListener("click", () => play(key));
      });
    });
  }

  async function play(key) {
    const turn = ++opened;
    try {
      at("problem").textContent = "";
      let data = shown.films[key];
      if (!data) {
        const reply = await fetch("match?" + new URLSearchParams({ key }));
        const found = await reply.json();
        if (!reply.ok) throw new Error(found.error);
        data = found.match;
      }
      if (turn !== opened) return;
      at("screen").srcdoc = at("empty-player").content.textContent.replace('id="match">', () => 'id="match">' + data);
      at("player").showModal();
    } catch (error) {
      at("problem").textContent = "the match cannot be played: " + error.message;
      at("problem").scrollIntoView();
    }
  }

  function matches(parent, game) {
    const rows = game.matches.map((match) => {
      const end = (match.winner < 0 ? "draw" : match.winner === 0 ? match.a : match.b) + (match.ending ? " (" + match.ending + ")" : "");
      let how = element("code", match.watch);
      if (isLive || shown.films[match.key]) {
        how = element("button", "play", null, "play");
        how.type = "button";
        how.addEventListener("click", () => play(match.key));
      }
      return [match.a, match.b, end, number(match.steps), how];
    });
    table(parent, [["seat 0"], ["seat 1"], ["won by"], ["steps", true], ["watch it"]], rows);
  }

  function board(parent, game) {
    const digits = game.unit === "elo" ? 0 : 3;
    table(parent, [["", true], ["agent"], ["rating", true], ["95 % interval"], ["games", true], ["won", true], ["drawn", true], ["lost", true]],
      game.board.map((x) => [x.rank, x.name + (x.is_best ? x.is_champion ? " (champion)" : " (best)" : ""), number(x.rating, digits), number(x.lower, digits) + " to " + number(x.upper, digits), number(x.games), number(x.wins), number(x.draws), number(x.losses)]));
  }

  function alarmList(parent, game) {
    begin(parent);
    const raised = game.alarms.filter((x) => x.state === "raised"), others = game.alarms.filter((x) => x.state !== "raised");
    const list = keyed(parent, "raised", "div", "");
    list.replaceChildren();
    if (!raised.length) element("p", "No alarm is raised.", list);
    for (const alarm of raised) alarmLine(list, alarm);
    if (others.length) {
      const more = keyed(parent, "others", "details", "");
      more.replaceChildren();
      element("summary", others.length + " quiet, or without enough games to tell", more);
      for (const alarm of others) alarmLine(more, alarm);
    }
    const events = game.runs.flatMap((run) => run.events);
    if (events.length) {
      const more = keyed(parent, "events", "details", "");
      more.replaceChildren();
      element("summary", events.length + (events.length === 1 ? " event" : " events"), more);
      table(element("div", "", more), [["run"], ["at step", true], ["kind"], ["message"]], events.map((x) => [x.run, x.steps === null ? "" : number(x.steps, 0), x.kind, x.message]));
    }
    end(parent);
  }
  function alarmLine(parent, alarm) {
    const line = element("div", "", parent, "alarm " + alarm.state);
    element("b", alarm.kind, line);
    element("span", alarm.sentence + (alarm.state === "unknown" ? " (not known)" : ""), line);
    if (alarm.state === "raised") element("pre", "", line).appendChild(element("code", alarm.command));
  }

  function runCards(parent, game, colours) {
    begin(parent);
    for (const run of game.runs) {
      const isNew = ![...parent.children].some((child) => child.dataset.key === run.run);
      const card = keyed(parent, run.run, "details", "run");
      if (isNew && game.runs.length === 1) card.open = true;
      card.replaceChildren();
      const head = element("summary", "", card);
      element("span", run.run, head).style.borderBottom = "3px solid " + colours[run.line];
      element("span", " " + run.status + ", " + number(run.steps, 0) + (run.total_steps ? " of " + number(run.total_steps, 0) : "") + " steps, seed " + run.seed, head);
      const facts = element("div", "", card, "facts");
      for (const [name, value] of [["stage", run.stage], ["preset", run.preset], ["role", run.role], ["device", run.device], ["continues", run.parent], ["began", run.started_at], ["last written", run.updated_at], ["fingerprint", run.fingerprint.slice(0, 16)]]) {
        if (!value) continue;
        const fact = element("div", "", facts);
        element("span", name, fact);
        fact.appendChild(document.createTextNode(value));
      }
      if (run.made.command) {
        element("h4", "made by", card);
        element("pre", "", card).appendChild(element("code", run.made.command));
      }
      if (run.made.note) element("p", run.made.note, card, "note");
      element("h4", "settings that differ from the default", card);
      if (run.made.changed.length) table(element("div", "", card), [["setting"], ["value"], ["default"]], run.made.changed.map((x) => [x.name, x.value, x.default]));
      else element("p", "none", card, "note");
      if (run.terms.length) {
        element("h4", "reward terms, mean of " + number(run.terms[0].matches, 0) + " training matches", card);
        table(element("div", "", card), [["term"], ["weight", true], ["learner", true], ["opponents", true], ["weighted", true], ["fired in", true]],
          run.terms.map((x) => [x.term, number(x.weight), number(x.own), number(x.other), number(x.weight * x.own), number(100 * x.fired / x.matches, 0) + " %"]));
      }
    }
    end(parent);
  }

  function lineKeys(parent, game, colours) {
    parent.replaceChildren();
    for (const line of game.lines) {
      const made = element("button", "", element("li", "", parent));
      made.type = "button";
      made.setAttribute("aria-pressed", String(!hidden.has(line.id)));
      swatch(made, line.name, colours[line.id]);
      made.addEventListener("click", () => { hidden.has(line.id) ? hidden.delete(line.id) : hidden.add(line.id); show(shown); });
    }
  }

  function gamePart(parent, game) {
    const colours = {};
    game.lines.forEach((line, i) => { colours[line.id] = ink(i); });
    begin(parent);
    keyed(parent, "title", "h2", "").textContent = game.game;
    keyed(parent, "note", "p", "note").textContent = "game id " + game.game_id.slice(0, 16);
    if (game.lines.length > 1 || game.lines[0].members.length > 1) lineKeys(keyed(parent, "lines", "ul", "keys lines"), game, colours);
    const most = Math.max(1, ...game.runs.map((run) => run.steps));
    const seeds = game.lines.some((line) => line.members.length > 1);
    const add = (key, title, note) => {
      const part = keyed(parent, key, "section", "");
      part.id = key + "-" + shown.games.indexOf(game);
      begin(part);
      keyed(part, "title", "h3", "").textContent = title;
      if (note) keyed(part, "note", "p", "note").textContent = note;
      return keyed(part, "body", "div", "");
    };
    for (const section of game.sections) {
      const across = seeds && section.id !== "seats" ? " Of runs that differ by their seed alone: their mean, with a band from the least to the most; from five seeds on the interquartile mean (IQM) with its 95 % bootstrap interval; each seed thin." : "";
      const body = add(section.id, section.title, section.note + (section.id === "strength" ? across : ""));
      if (!body.classList.contains("panels")) body.className = "panels";
      begin(body);
      for (const panel of section.panels) {
        const isOwn = panel.series.some((series) => !series.line), size = section.id === "strength" ? "large" : panel.kind === "bars" ? "wide" : isOwn ? "double" : "";
        figure(body, panel, colours, most, size);
      }
      end(body);
      end(body.parentNode);
      if (section.id === "opponents") after(game, add);
    }
    if (!game.sections.some((x) => x.id === "opponents")) after(game, add);
    const alarms = add("alarms", "Alarms", "Forgetting, cycling, passivity and unequal seats, as league alarms looks for them; events of the training below.");
    alarmList(alarms, game);
    end(alarms.parentNode);
    const cards = add("made", "Settings and commands", "");
    runCards(cards, game, colours);
    end(cards.parentNode);
    end(parent);
  }

  function after(game, add) {
    if (game.board.length) {
      const table = add("board", "Leaderboard", game.notes.map((x) => x[0].toUpperCase() + x.slice(1) + ".").join(" "));
      board(keyed(table, "table", "div", ""), game);
      keyed(table, "count", "p", "note").textContent = game.board.length + " agents" + (game.map.num_left_out ? ", " + game.map.num_left_out + " are left out" : "");
      end(table.parentNode);
      const map = add("payoff", "Who beats whom", "Score of the row's agent against the column's in evaluation games, in per cent: blue above one half, orange below. A cell with a dot plays a match. " + (game.map.num_left_out ? "The most interesting agents are shown; " + game.map.num_left_out + " are left out." : ""));
      payoff(map, game);
      end(map.parentNode);
    }
    if (game.matches.length) {
      const kept = add("matches", "Matches that are kept", isLive ? "" : "Those in this page have a button; the command shows the others.");
      const more = keyed(kept, "more", "details", "");
      if (!more.firstChild) { element("summary", "", more); element("div", "", more); }
      more.firstChild.textContent = game.matches.length + " newest";
      matches(more.lastChild, game);
      end(kept.parentNode);
    }
  }

  function contents(found) {
    const list = at("contents");
    list.replaceChildren();
    found.games.forEach((game, i) => {
      const row = element("div", "", list);
      if (found.games.length > 1) element("b", game.game, row);
      for (const part of document.querySelectorAll("#games > [data-key]")[i].querySelectorAll(":scope > section")) {
        const link = element("a", part.querySelector("h3").textContent.toLowerCase(), row);
        link.href = "#" + part.id;
      }
    });
  }

  function show(found) {
    shown = found;
    at("summary").replaceChildren(...(found.games.length ? found.games.map((game) => element("span", game.summary)) : [element("span", found.summary)]));
    const parent = at("games");
    begin(parent);
    for (const game of found.games) gamePart(keyed(parent, game.game_id, "article", ""), game);
    end(parent);
    contents(found);
    if (isLive) document.title = at("title").textContent = found.title + " - league, live";
    for (const plot of charts.keys()) if (!plot.isConnected) { sizes.unobserve(plot); charts.get(plot).destroy(); charts.delete(plot); }
    for (const job of queue.splice(0)) job();
    document.body.dataset.ready = "yes";
  }

  async function unpacked() {
    const bytes = Uint8Array.from(atob(at("data").textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  // Live: the same records, fetched.
  let tag = "", timer = 0, isSlow = false;
  function picked() { return new URLSearchParams(location.search).getAll("run"); }
  async function poll() {
    clearTimeout(timer);
    try {
      const reply = await fetch("data?" + new URLSearchParams(picked().map((run) => ["run", run])), { headers: tag ? { "If-None-Match": tag } : {} });
      if (reply.status === 200) {
        tag = reply.headers.get("ETag") || "";
        const found = await reply.json();
        found.films = {};
        show(found);
        picker(found);
      } else if (reply.status !== 304) throw new Error((await reply.json()).error);
      at("problem").textContent = "";
      at("about").replaceChildren(element("span", "", null, "dot"), document.createTextNode("live from " + shown.store + ", as of " + shown.made_at));
      isSlow = false;
    } catch (error) {
      at("problem").textContent = error.message === "Failed to fetch" ? "the server has ended; `league serve` starts it again" : error.message;
      isSlow = true;
    }
    timer = setTimeout(poll, isSlow ? 3 * EVERY : EVERY);
  }
  function picker(found) {
    const form = at("runs"), ticked = new Set([...form.querySelectorAll("input")].filter((x) => x.checked).map((x) => x.value)), isOpen = at("picker").open && form.firstChild;
    at("picker").hidden = !found.listed.length;
    at("picker").querySelector("summary").textContent = "Runs: " + found.listed.filter((x) => x.is_shown).length + " of " + found.listed.length + " shown";
    form.replaceChildren();
    for (const run of found.listed) {
      const label = element("label", "", form), box = element("input", "", label);
      box.type = "checkbox";
      box.value = run.run;
      box.checked = isOpen ? ticked.has(run.run) : run.is_shown;
      element("span", run.run + " (" + run.game + ", " + run.status + ", " + number(run.steps, 0) + " steps)", label);
    }
    element("button", "show these", form).type = "submit";
  }

  function listen() {
    document.addEventListener("mouseover", (event) => {
      const cell = event.target.closest("[data-tip]"), box = cell && cell.getBoundingClientRect();
      if (cell) tip(cell.dataset.tip, box.left + box.width / 2, box.top + box.height / 2);
      else if (!event.target.closest(".uplot")) tip("");
    });
    at("close").addEventListener("click", () => at("player").close());
    at("player").addEventListener("close", () => { at("screen").srcdoc = ""; });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(shown));
    at("runs").addEventListener("submit", (event) => {
      event.preventDefault();
      const runs = [...at("runs").querySelectorAll("input:checked")].map((x) => ["run", x.value]);
      history.replaceState(null, "", "?" + new URLSearchParams(runs));
      at("picker").open = false;
      tag = "";
      poll();
    });
  }

  listen();
  if (isLive) poll();
  else if (typeof DecompressionStream === "undefined") at("problem").textContent = "this browser is too old to unpack the page; open it in a newer one";
  else unpacked().then(show).catch((error) => { at("problem").textContent = "the numbers in this page are damaged: " + error.message; });
})();
