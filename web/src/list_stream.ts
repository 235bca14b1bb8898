/* The stream of the lists: every view that follows no run is kept up to date by it. */

import { useEffect, useRef } from "preact/hooks";
import { useClient } from "./context";
import { follow, throttled } from "./live";

/** Load something again whenever a loop or a run changes; the page's state of connection is this stream's. */
export function useListStream(reload: () => Promise<void>): void {
  const client = useClient();
  const latest = useRef(reload);
  latest.current = reload;
  useEffect(() => {
    const leave = new AbortController();
    const again = throttled(() => latest.current(), 500);
    void follow(
      client,
      () => "/api/stream",
      (item) => {
        if (item.type !== "hello" && item.type !== "ping") again.ask();
      },
      leave.signal,
      { main: true, again: () => again.ask() },
    );
    return () => {
      leave.abort();
      again.cancel();
    };
  }, [client]);
}
