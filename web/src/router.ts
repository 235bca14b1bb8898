/* Which view is shown: the fragment of the URL, so that Back, bookmarks and new tabs work. */

import { signal } from "@preact/signals";

export type Route =
  | { view: "runs"; query: URLSearchParams }
  | { view: "run"; key: string; step: number | null; query: URLSearchParams }
  | { view: "loops" }
  | { view: "loop"; key: string }
  | { view: "charts"; key: string | null }
  | { view: "edit"; key: string; state: string | null }
  | { view: "unknown"; path: string };

export function parseRoute(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#/, "").split("?", 2);
  const query = new URLSearchParams(search);
  let parts: string[];
  try {
    parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return { view: "unknown", path };
  }
  const [view, key, more, step] = parts;
  if (view === undefined || (view === "runs" && key === undefined)) return { view: "runs", query };
  if (view === "runs") return { view: "run", key: key!, step: more === "steps" ? Number(step) || null : null, query };
  if (view === "loops") return key === undefined ? { view: "loops" } : { view: "loop", key };
  if (view === "charts") return { view: "charts", key: key ?? null };
  if (view === "edit" && key !== undefined) return { view: "edit", key, state: more ?? null };
  return { view: "unknown", path };
}

export const route = signal<Route>({ view: "runs", query: new URLSearchParams() });

export function startRouter(): void {
  const read = (): void => {
    route.value = parseRoute(location.hash);
  };
  addEventListener("hashchange", read);
  read();
}

export const hrefs = {
  runs: (filter: Record<string, string> = {}): string => {
    const search = new URLSearchParams(Object.entries(filter).filter(([, value]) => value)).toString();
    return `#/runs${search ? `?${search}` : ""}`;
  },
  run: (key: string, step?: number | null): string =>
    `#/runs/${encodeURIComponent(key)}${step ? `/steps/${step}` : ""}`,
  loops: "#/loops",
  loop: (key: string): string => `#/loops/${encodeURIComponent(key)}`,
  charts: (key?: string): string => (key === undefined ? "#/charts" : `#/charts/${encodeURIComponent(key)}`),
  edit: (key: string, state?: string): string =>
    `#/edit/${encodeURIComponent(key)}${state === undefined ? "" : `/${encodeURIComponent(state)}`}`,
};

/** Show another view; with `replace`, Back skips the present one. */
export function go(href: string, replace = false): void {
  if (replace) {
    history.replaceState(null, "", href);
    route.value = parseRoute(href);
  } else {
    location.hash = href;
  }
}
