/*
 * A time axis that leaves out long pauses: a run that waited for a night shows its work, and a
 * narrow gap that says how long nothing ran.
 */

export interface Gap {
  from: number;
  to: number;
}

export interface TimeScale {
  /** The place of a time on the axis, between 0 and the width. */
  at(ms: number): number;
  gaps: (Gap & { x: number; width: number })[];
  /** Stretches of time that are drawn to scale. */
  pieces: { from: number; to: number; x: number; width: number }[];
}

const GAP_WIDTH = 28;
const SHARE = 0.12;

export function timeScale(from: number, to: number, busy: readonly Gap[], width: number): TimeScale {
  const end = Math.max(to, from + 1);
  const gaps = pauses(from, end, busy);
  const hidden = gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const room = Math.max(width - gaps.length * GAP_WIDTH, 1);
  const perMs = room / Math.max(end - from - hidden, 1);
  const placed: TimeScale["gaps"] = [];
  const pieces: TimeScale["pieces"] = [];
  let x = 0;
  let time = from;
  for (const gap of gaps) {
    const piece = (gap.from - time) * perMs;
    pieces.push({ from: time, to: gap.from, x, width: piece });
    x += piece;
    placed.push({ ...gap, x, width: GAP_WIDTH });
    x += GAP_WIDTH;
    time = gap.to;
  }
  pieces.push({ from: time, to: end, x, width: (end - time) * perMs });
  return { at: (ms) => placeOf(ms, pieces, placed), gaps: placed, pieces };
}

function placeOf(ms: number, pieces: TimeScale["pieces"], gaps: TimeScale["gaps"]): number {
  const gap = gaps.find((each) => ms > each.from && ms < each.to);
  if (gap) return gap.x + gap.width / 2;
  const piece = pieces.find((each) => ms <= each.to) ?? pieces[pieces.length - 1]!;
  const share = (ms - piece.from) / Math.max(piece.to - piece.from, 1);
  return piece.x + Math.min(Math.max(share, 0), 1) * piece.width;
}

/** The times in which nothing ran, if they take a large share of the whole. */
function pauses(from: number, to: number, busy: readonly Gap[]): Gap[] {
  const sorted = [...busy].sort((a, b) => a.from - b.from);
  const free: Gap[] = [];
  let time = from;
  for (const each of sorted) {
    if (each.from > time) free.push({ from: time, to: each.from });
    time = Math.max(time, each.to);
  }
  if (to > time) free.push({ from: time, to });
  const work = to - from - free.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  return free.filter((gap) => gap.to - gap.from > Math.max(work * SHARE * 3, (to - from) * SHARE)).slice(0, 6);
}
