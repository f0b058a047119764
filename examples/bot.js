// A bot of Kuhn poker in JavaScript, by the protocol of docs/guides/programs.md: it raises at every other decision.
// league evaluate bot:js --against bot:nash --env kuhn --bot 'js=program:node examples/bot.js'
const rows = new Map();
const say = (answer) => console.log(JSON.stringify(answer));
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  if ("start" in message) say({ ready: 1 });
  if ("reset" in message) rows.set(message.reset, 0);
  if (!("act" in message)) return;
  const decisions = rows.get(message.act) + 1;
  rows.set(message.act, decisions);
  say({ act: message.act, action: [decisions % 2 ? message.mask.indexOf(1) : message.mask.lastIndexOf(1)] });
});
