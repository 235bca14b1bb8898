/*
 * What arrives by itself: changes of the lists, and the events of the run on the screen.
 *
 * A connection that breaks is opened again, later each time; a stream of events continues after
 * the last `seq` that arrived, so that nothing is missed and nothing comes twice.
 */

import { signal } from "@preact/signals";
import type { StreamItem } from "./api";
import { Failure, type Client } from "./client";

export type Connection = "connecting" | "live" | "polling" | "offline";

export const connection = signal<Connection>("connecting");

/** The time of the reader's clock, once a second while the page is visible. */
export const now = signal(Date.now());
/** How far the server's clock is ahead of the reader's. */
export const clockOffset = signal(0);

export function serverNow(): number {
  return now.value + clockOffset.value;
}

export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    now.value = Date.now();
  });
}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5000;

function pause(ms: number, until: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    until.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

/**
 * Read a stream until `until` is aborted, or a run has ended. `path` is asked again before each
 * connection: it knows the last `seq`. `main` says whether this stream is the one that the page's
 * state of connection is about.
 */
export async function follow(
  client: Client,
  path: () => string,
  take: (item: StreamItem) => void,
  until: AbortSignal,
  { main = false, again = (): void => undefined } = {},
): Promise<void> {
  let wait = FIRST_WAIT_MS;
  let broken = false;
  while (!until.aborted) {
    try {
      for await (const item of client.stream(path(), until)) {
        wait = FIRST_WAIT_MS;
        if (item.type === "hello") {
          clockOffset.value = item.at_ms - Date.now();
          if (main) connection.value = item.live === "polling" ? "polling" : "live";
          if (broken) again();
          broken = false;
        }
        take(item);
        if (item.type === "end" || item.type === "replaced") return;
      }
    } catch (error) {
      if (until.aborted) return;
      if (error instanceof Failure && error.status >= 400 && error.status < 500) return;
    }
    if (until.aborted) return;
    broken = true;
    if (main) connection.value = "offline";
    await pause(wait, until);
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
}

/** Call `work` soon, at most once at a time and at most once per `every` milliseconds. */
export function throttled(work: () => Promise<void>, every: number): { ask(): void; cancel(): void } {
  let running = false;
  let asked = false;
  let cancelled = false;
  let last = 0;
  async function start(): Promise<void> {
    if (running || cancelled) return;
    running = true;
    try {
      while (asked && !cancelled) {
        const left = last + every - performance.now();
        if (left > 0) await new Promise((resolve) => setTimeout(resolve, left));
        asked = false;
        last = performance.now();
        if (!cancelled) await work();
      }
    } finally {
      running = false;
    }
  }
  return {
    ask() {
      asked = true;
      void start();
    },
    cancel() {
      cancelled = true;
    },
  };
}

/** The words of a screen reader: what has just happened. */
export const announcement = signal("");

export function announce(text: string): void {
  announcement.value = text;
}

