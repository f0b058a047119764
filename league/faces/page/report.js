(function () {
  const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a6fd1", "#7a8b00", "#b8475b", "#4f7f8f", "#a0743a", "#5c6478"];
  const BRIGHT = ["#4ba3e3", "#f0b429", "#2fc794", "#e39ac6", "#f07f3c", "#7cc8f5", "#ad97ee", "#b3c52e", "#e0788b", "#7fb4c6", "#cfa06a", "#9aa0b2"];
  const EVERY = 5000, isLive = document.body.dataset.live === "yes";
  const isTouch = window.matchMedia("(pointer: coarse)").matches;
  const at = (id) => document.getElementById(id);
  const hidden = new Set(), queue = [], layouts = new Map();
  let shown = null, drawn = 0, isDrawing = false, opened = 0;

  // Text for Plotly, which reads some tags in labels.
  function text(words) { return String(words).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"); }
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
    if (digits !== undefined) return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
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

  function base(height, isSmall) {
    const axis = { gridcolor: colour("grid"), zerolinecolor: colour("edge"), linecolor: colour("edge"), fixedrange: isTouch, automargin: true, tickfont: { size: isSmall ? 10 : 11 } };
    return {
      margin: isSmall ? { l: 34, r: 4, t: 4, b: 22 } : { l: 44, r: 8, t: 6, b: 34 }, height, showlegend: false, hovermode: "closest", dragmode: isTouch ? false : "zoom",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("ink"), size: 12, family: "system-ui, sans-serif" },
      hoverlabel: { font: { family: "system-ui, sans-serif", size: 13 }, align: "left" },
      xaxis: { ...axis, tickformat: "~s", nticks: isSmall ? 4 : 6, title: { text: isSmall ? "" : "steps", font: { size: 11, color: colour("dim") }, standoff: 4 } },
      yaxis: { ...axis, nticks: isSmall ? 4 : 6 },
    };
  }

  function draw(plot, traces, layout, after) {
    queue.push(() => Plotly.react(plot, traces, layout, { displayModeBar: false, responsive: true, displaylogo: false, showTips: false, doubleClickDelay: 400 }).then(after || (() => {})));
    if (!isDrawing) { isDrawing = true; document.body.dataset.ready = "no"; requestAnimationFrame(next); }
  }
  function next() {
    const job = queue.shift();
    if (!job) { isDrawing = false; document.body.dataset.ready = "yes"; document.body.dataset.figures = String(drawn); return; }
    job();
    drawn += 1;
    requestAnimationFrame(next);
  }

  function told(series, i) {
    const low = series.low && series.low[i], high = series.high && series.high[i];
    const band = low === null || low === undefined || low === high ? "" : " [" + number(low) + " to " + number(high) + "]";
    return number(series.y[i]) + band;
  }

  function curves(panel, colours) {
    const traces = [], bands = [], share = panel.series.filter((series) => series.low).length > 2 ? 0.09 : 0.16;
    panel.series.forEach((series, i) => {
      const hue = series.line ? colours[series.line] : ink(i);
      if (series.line && hidden.has(series.line)) return;
      if (panel.kind === "stack") {
        traces.push({ type: "scatter", x: series.x, y: series.y, name: text(series.name), stackgroup: "one", mode: "lines", line: { width: 0.5, color: hue }, fillcolor: pale(hue, 0.75), hovertemplate: "%{y:.1%} at step %{x:,}<extra>" + text(short(series.name, 30)) + "</extra>" });
        return;
      }
      if (series.low && series.x.length > 1) {
        const known = series.x.map((_, k) => k).filter((k) => series.low[k] !== null && series.high[k] !== null), back = [...known].reverse();
        bands.push({ type: "scatter", x: [...known, ...back].map((k) => series.x[k]), y: [...known.map((k) => series.high[k]), ...back.map((k) => series.low[k])], fill: "toself", fillcolor: pale(hue, share), line: { width: 0 }, mode: "lines", hoverinfo: "skip" });
      }
      const trace = { type: "scatter", x: series.x, y: series.y, name: text(series.name), mode: series.x.length < 30 && !series.faint ? "lines+markers" : "lines", line: { color: hue, width: series.faint ? 1 : 2 }, marker: { size: series.x.length === 1 ? 9 : 4 }, opacity: series.faint ? 0.35 : 1 };
      if (series.faint) trace.hoverinfo = "skip";
      else { trace.customdata = series.y.map((_, k) => told(series, k)); trace.hovertemplate = "%{customdata} at step %{x:,}<extra>" + text(short(series.name, 30)) + "</extra>"; }
      if (series.low && series.x.length === 1) trace.error_y = { type: "data", symmetric: false, array: [series.high[0] - series.y[0]], arrayminus: [series.y[0] - series.low[0]], color: hue };
      traces.push(trace);
    });
    return [...bands, ...traces];
  }

  function bars(panel) {
    return panel.series.map((series, i) => ({
      type: "bar", orientation: "h", y: series.x.map((name) => text(short(String(name), 24))), x: series.y, name: text(series.name), marker: { color: ink(i) },
      error_x: { type: "data", symmetric: false, array: series.y.map((y, k) => y === null ? 0 : series.high[k] - y), arrayminus: series.y.map((y, k) => y === null ? 0 : y - series.low[k]), color: colour("dim"), thickness: 1.2, width: 3 },
      customdata: series.y.map((_, k) => told(series, k)), hovertemplate: "%{y}, " + text(series.name) + ": %{customdata}<extra></extra>",
    }));
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
    const tall = panel.kind === "bars" ? 70 + 34 * panel.series[0].x.length : undefined;
    if (tall) plot.style.height = tall + "px";
    const layout = base(tall, plot.clientWidth < 200);
    layout.shapes = [];
    if (panel.kind !== "bars") layout.xaxis.range = [-0.02 * most, 1.02 * most];
    if (panel.kind === "lines" && own.length) layout.yaxis.rangemode = "tozero";
    if (panel.healthy) layout.shapes.push({ type: "rect", xref: "paper", x0: 0, x1: 1, y0: panel.healthy[0], y1: panel.healthy[1], fillcolor: pale("#1d8a4b", 0.12), line: { width: 0 }, layer: "below" });
    const isBars = panel.kind === "bars", axis = isBars ? layout.xaxis : layout.yaxis;
    if (panel.range) axis.range = [panel.range[0], panel.range[1] + 0.02];
    if (panel.even !== null) layout.shapes.push({ type: "line", [isBars ? "yref" : "xref"]: "paper", [isBars ? "y0" : "x0"]: 0, [isBars ? "y1" : "x1"]: 1, [isBars ? "x0" : "y0"]: panel.even, [isBars ? "x1" : "y1"]: panel.even, line: { width: 1, dash: "dot", color: colour("dim") } });
    if (panel.healthy && !panel.range) axis.range = within(panel);
    if (isBars) { layout.xaxis.tickformat = ""; layout.xaxis.title.text = ""; layout.yaxis.type = "category"; layout.yaxis.autorange = "reversed"; layout.barmode = "group"; }
    draw(plot, isBars ? bars(panel) : curves(panel, colours), layout);
    end(card);
  }

  // What is drawn decides the axis, not how far the healthy band reaches.
  function within(panel) {
    const seen = panel.series.flatMap((series) => [...series.y, ...(series.low || []), ...(series.high || [])]).filter((y) => y !== null);
    const low = Math.min(...seen), high = Math.max(...seen), room = (high - low || Math.abs(high) || 1) * 0.08;
    return [low - room, high + room];
  }

  function swatch(parent, words, hue) {
    const mark = element("span", "", parent, "swatch");
    mark.style.background = hue;
    element("span", words, parent);
  }

  function payoff(parent, game) {
    const map = game.map, count = map.names.length;
    parent.classList.add("scroll");
    const plot = keyed(parent, "plot", "div", "plot");
    if (!count) return;
    const names = map.names.map((name) => text(short(name, 24))), keys = new Map(map.kept.map(([i, j, key]) => [i + " " + j, key]));
    const isPlayable = (key) => key && (isLive || shown.films[key]);
    const words = map.score.map((row, i) => row.map((score, j) => score === null ? "" :
      text(short(map.names[i], 40)) + " against " + text(short(map.names[j], 40)) + "<br>score " + number(score, 3) + " [" + number(map.lower[i][j], 3) + " to " + number(map.upper[i][j], 3) + "] of " + map.games[i][j] + " games" +
      (isPlayable(keys.get(i + " " + j)) ? "<br>click: play a match" : "")));
    const middle = isDark() ? "#3a4157" : "#eeeeea";
    const cells = Math.max(count * 24 + 130, 260);
    const wide = Math.max(Math.min(parent.clientWidth - 4, count * 64 + 200), cells), tall = Math.max(220, count * (count < 12 ? 32 : 22) + 130);
    plot.style.width = wide + "px";
    plot.style.height = tall + "px";
    const layout = base(tall);
    layout.width = wide;
    layout.plot_bgcolor = colour("card");
    layout.margin = { l: 10, r: 8, t: 10, b: 10 };
    Object.assign(layout.xaxis, { type: "category", tickformat: "", nticks: 0, tickmode: "array", tickvals: names.map((_, i) => i), ticktext: names, tickangle: -60, title: { text: "" }, showgrid: false, fixedrange: true });
    Object.assign(layout.yaxis, { type: "category", nticks: 0, tickmode: "array", tickvals: names.map((_, i) => i), ticktext: names, autorange: "reversed", showgrid: false, fixedrange: true });
    const playable = [];
    map.score.forEach((row, i) => row.forEach((score, j) => { if (score !== null && isPlayable(keys.get(i + " " + j))) playable.push([j, i]); }));
    draw(plot, [
      { type: "heatmap", x: names.map((_, i) => i), y: names.map((_, i) => i), z: map.score, zmin: 0, zmax: 1, colorscale: [[0, ink(4)], [0.5, middle], [1, ink(0)]], xgap: 1, ygap: 1, customdata: words, hovertemplate: "%{customdata}<extra></extra>", hoverongaps: false, colorbar: { title: { text: "score", font: { size: 11 } }, thickness: 10, len: 0.6, tickfont: { size: 11 }, tickvals: [0, 0.5, 1] } },
      { type: "scatter", mode: "markers", x: playable.map((x) => x[0]), y: playable.map((x) => x[1]), marker: { size: 4, color: colour("dim") }, hoverinfo: "skip" },
    ], layout, () => {
      plot.removeAllListeners("plotly_click");
      plot.on("plotly_click", (event) => {
        const point = event.points.find((x) => x.data.type === "heatmap") || event.points[0], key = keys.get(point.y + " " + point.x);
        if (isPlayable(key)) play(key);
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
    table(parent, [["", true], ["agent"], ["rating", true], ["95 % interval"], ["games", true], ["won", true], ["drawn", true], ["lost", true]],
      game.board.map((x) => [x.rank, x.name + (x.is_champion ? " (champion)" : ""), number(x.rating, 0), number(x.lower, 0) + " to " + number(x.upper, 0), number(x.games), number(x.wins), number(x.draws), number(x.losses)]));
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
      const more = keyed(table, "more", "details", "");
      if (!more.firstChild) { element("summary", "", more); element("div", "", more); more.open = game.board.length <= 12; }
      more.firstChild.textContent = game.board.length + " agents" + (game.map.num_left_out ? ", " + game.map.num_left_out + " are left out" : "");
      board(more.lastChild, game);
      end(table.parentNode);
      const map = add("payoff", "Who beats whom", "Score of the row's agent against the column's in evaluation games; those with a dot can be played. " + (game.map.num_left_out ? "The most interesting agents are shown; " + game.map.num_left_out + " are left out." : ""));
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
    if (!isDrawing) document.body.dataset.ready = "yes";
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
