/*
 * Numbers and times as people read them: always with a unit, times in the reader's own zone.
 * Durations look as they do in a terminal: `2.3s`, `2m 34s`, `1h 02m`.
 */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const two = (value: number): string => String(value).padStart(2, "0");

export function duration(ms: number): string {
  if (ms > 0 && ms < 100) return "<0.1s";
  if (ms < 10 * SECOND) return `${(Math.max(ms, 0) / SECOND).toFixed(1)}s`;
  const rounded = Math.round(ms / SECOND) * SECOND;
  if (rounded < MINUTE) return `${rounded / SECOND}s`;
  if (rounded < HOUR) return `${Math.floor(rounded / MINUTE)}m ${two((rounded % MINUTE) / SECOND)}s`;
  if (rounded < 2 * DAY) return `${Math.floor(rounded / HOUR)}h ${two(Math.floor((rounded % HOUR) / MINUTE))}m`;
  return `${Math.floor(rounded / DAY)}d ${Math.floor((rounded % DAY) / HOUR)}h`;
}

/** A duration without its smaller unit, for the ticks of an axis. */
export function roundDuration(ms: number): string {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${+(ms / SECOND).toFixed(1)}s`;
  if (ms < HOUR) return ms % MINUTE ? duration(ms) : `${ms / MINUTE}m`;
  if (ms < DAY) return ms % HOUR ? duration(ms) : `${ms / HOUR}h`;
  return ms % DAY ? duration(ms) : `${ms / DAY}d`;
}

export function money(usd: number): string {
  if (usd === 0) return "$0.00";
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

const COUNT = new Intl.NumberFormat("en-US");

/** A number with all its digits. */
export function exact(value: number): string {
  return COUNT.format(value);
}

/** `41k`, `1.2M`; below 10,000 every digit. */
export function count(value: number): string {
  if (value < 10_000) return COUNT.format(value);
  if (value < 1_000_000) return `${Math.round(value / 1000)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

export function plural(value: number, noun: string, many = `${noun}s`): string {
  return `${COUNT.format(value)} ${value === 1 ? noun : many}`;
}

export function bytes(value: number): string {
  if (value < 1024) return plural(value, "byte");
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(1)} KiB`;
  return `${(value / 1024 / 1024).toFixed(1)} MiB`;
}

/** A measured value, without noise behind the decimal point. */
export function measured(value: number): string {
  return Number.isInteger(value) ? COUNT.format(value) : String(Number(value.toPrecision(4)));
}

/** The middle value, or the mean of the two in the middle; 0 without values. */
export function medianOf(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const above = sorted[middle] ?? 0;
  return sorted.length % 2 ? above : ((sorted[middle - 1] ?? 0) + above) / 2;
}

export function percent(share: number): string {
  return `${Math.round(share * 100)}%`;
}

/** `just now`, `3 min ago`, `2 h ago`, `yesterday`; a date for what is older than a week. */
export function ago(at: number, now: number): string {
  const passed = now - at;
  if (passed < 5 * SECOND) return "just now";
  if (passed < MINUTE) return `${Math.floor(passed / SECOND)}s ago`;
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min ago`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)} h ago`;
  if (passed < 7 * DAY) return plural(Math.floor(passed / DAY), "day") + " ago";
  return date(at);
}

export function clock(at: number, seconds = true): string {
  const options: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return new Date(at).toLocaleTimeString("en-GB", seconds ? { ...options, second: "2-digit" } : options);
}

export function date(at: number): string {
  return new Date(at).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
}

/** The day as a heading: `Today`, `Yesterday`, `Mon 16 Nov`. */
export function dayName(at: number, now: number): string {
  const days = Math.round((startOfDay(now) - startOfDay(at)) / DAY);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  const options: Intl.DateTimeFormatOptions = { weekday: "short", day: "numeric", month: "short" };
  if (days > 300) options.year = "numeric";
  return new Date(at).toLocaleDateString("en-GB", options);
}

function startOfDay(at: number): number {
  return new Date(at).setHours(0, 0, 0, 0);
}

/** Date, time and zone: what a pointer over a time shows. */
export function absolute(at: number): string {
  return new Date(at).toLocaleString("en-GB", {
    dateStyle: "medium",
    timeStyle: "long",
  });
}

/** Evenly spaced round values that cover a range, at most `most` of them. */
export function ticks(low: number, high: number, most: number): number[] {
  const range = high - low;
  if (!(range > 0)) return [low];
  const rough = range / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? rough;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) {
    found.push(Number(at.toPrecision(12)));
  }
  return found;
}

const TIME_STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, MINUTE, 2 * MINUTE,
  5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 6 * HOUR, 12 * HOUR, DAY,
  2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 56 * DAY,
];

/** The distance of the ticks of a time axis. */
export function timeStep(range: number, most: number): number {
  return TIME_STEPS.find((each) => range / each <= most) ?? range;
}
