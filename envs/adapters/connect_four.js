// Connect four as OpenSpiel has it: rows from the bottom, player 0 begins. tests/arena/test_static_pages.py compares.
const ROWS = 6, COLUMNS = 7, WAYS = [[0, 1], [1, 0], [1, 1], [1, -1]], COLOURS = ["#56b4e9", "#f08c14"];

export function open() {
  let cells, first, turn, last, winner, chosen;

  const at = (row, column) => (row >= 0 && row < ROWS && column >= 0 && column < COLUMNS ? cells[row * COLUMNS + column] : -2);
  const isFree = (column) => at(ROWS - 1, column) === -1;
  function run(row, column, [up, right]) { // the cells of one colour through (row, column) along a way
    const own = at(row, column), found = [[row, column]];
    for (const sign of [1, -1]) {
      for (let i = 1; at(row + sign * i * up, column + sign * i * right) === own; i++) found.push([row + sign * i * up, column + sign * i * right]);
    }
    return found;
  }
  function play(column) {
    const row = [...Array(ROWS).keys()].find((y) => at(y, column) === -1);
    cells[row * COLUMNS + column] = turn;
    last = WAYS.map((way) => run(row, column, way)).find((found) => found.length >= 4) || [[row, column]];
    if (last.length >= 4) winner = turn;
    else if (!cells.includes(-1)) winner = -1;
    turn = 1 - turn;
  }
  function frame() {
    const shapes = [[1, "", 0, [0, 0, 7, 0, 7, 6, 0, 6], "#26345e", "#39477a", 0.08]];
    cells.forEach((seat, i) => {
      const x = i % COLUMNS + 0.5, y = Math.floor(i / COLUMNS) + 0.5, isLast = last.some(([row, column]) => row * COLUMNS + column === i);
      shapes.push([2, "", 0, [x, y, 0.4, 0.4], seat < 0 ? "#10131c" : COLOURS[seat], isLast && seat >= 0 ? "#f2f3ee" : "", 0.07]);
    });
    return { view: [-0.15, 6.15, 7.15, -0.15], background: "#10131c", shapes };
  }

  return {
    isLive: false, ticks: 1, seconds: 0.5, keys: [], keyboard: {}, frame,
    // `seed`: the seat that begins.
    start(seed) {
      first = turn = Number(seed);
      cells = Array(ROWS * COLUMNS).fill(-1);
      last = [];
      winner = null;
    },
    newSeed: () => (Math.random() < 0.5 ? 0 : 1),
    ending: () => winner,
    toAct: () => [turn === 0, turn === 1],
    // One number for each cell and player, then of each cell whether it is empty; last, which player the seat is.
    observe(seat) {
      const planes = cells.flatMap((x) => [+(x === first), +(x === 1 - first), +(x === -1)]);
      return Float32Array.from([...planes, +(seat === first), +(seat !== first)]);
    },
    mask: () => Array.from({ length: COLUMNS }, (_, column) => +isFree(column)),
    decide: (actions) => ([chosen] = actions[turn]),
    tick: () => play(chosen),
    choices: () => Array.from({ length: COLUMNS }, (_, column) => ({ words: String(column + 1), action: [column], isFree: isFree(column) })),
    // The choice at a place of the board, x from 0 to 1.
    choiceAt: (x) => Math.min(COLUMNS - 1, Math.max(0, Math.floor(x * 7.3 - 0.15))),
  };
}
