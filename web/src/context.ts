/* What every part of the page can reach: the client, and answers that load themselves. */

import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { Failure, type Client } from "./client";

export const ClientContext = createContext<Client | null>(null);

export function useClient(): Client {
  const client = useContext(ClientContext);
  if (client === null) throw new Error("no client above this component");
  return client;
}

export interface Loaded<T> {
  data: T | null;
  error: Failure | null;
  /** Ask again; what is shown stays until the answer is there. */
  reload(): Promise<void>;
}

/** Ask for a path, and again whenever it changes; null asks for nothing. */
export function useAnswer<T>(path: string | null): Loaded<T> {
  const client = useClient();
  const [state, setState] = useState<{ path: string | null; data: T | null; error: Failure | null }>({
    path: null,
    data: null,
    error: null,
  });
  const current = useRef<AbortController | null>(null);

  async function load(): Promise<void> {
    current.current?.abort();
    if (path === null) return;
    const controller = new AbortController();
    current.current = controller;
    try {
      const data = await client.get<T>(path, controller.signal);
      if (!controller.signal.aborted) setState({ path, data, error: null });
    } catch (error) {
      if (controller.signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      setState((before) => ({ path, data: before.path === path ? before.data : null, error }));
    }
  }

  useEffect(() => {
    void load();
    return () => current.current?.abort();
  }, [path, client]);

  const mine = state.path === path;
  return { data: mine ? state.data : null, error: mine ? state.error : null, reload: load };
}

/** The width of an element, as it changes. */
export function useWidth(initial: number): [(element: Element | null) => void, number] {
  const [width, setWidth] = useState(initial);
  const observer = useRef<ResizeObserver | null>(null);
  const watch = useRef((element: Element | null) => {
    observer.current?.disconnect();
    if (element === null) return;
    observer.current = new ResizeObserver(([entry]) => {
      // An element that is being taken out of the page has no width; nothing can be drawn in that.
      if (entry && entry.contentRect.width > 0) setWidth(Math.floor(entry.contentRect.width));
    });
    observer.current.observe(element);
  });
  return [watch.current, width];
}
