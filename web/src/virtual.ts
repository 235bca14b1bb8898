/* Which rows of a long list are on the screen. */

import { useEffect, useRef, useState } from "preact/hooks";

export interface Window {
  first: number;
  last: number; // exclusive
}

export function visibleRows(scrollTop: number, height: number, rowHeight: number, total: number, around = 8): Window {
  const first = Math.max(Math.floor(scrollTop / rowHeight) - around, 0);
  const last = Math.min(Math.ceil((scrollTop + height) / rowHeight) + around, total);
  return { first: Math.min(first, last), last };
}

/** Watch a scrolling element, and return which of its rows are visible. */
export function useRows(rowHeight: number, total: number) {
  const element = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 480 });
  useEffect(() => {
    const box = element.current;
    if (box === null) return;
    const read = (): void => setView({ top: box.scrollTop, height: box.clientHeight });
    const observer = new ResizeObserver(read);
    observer.observe(box);
    box.addEventListener("scroll", read, { passive: true });
    read();
    return () => {
      observer.disconnect();
      box.removeEventListener("scroll", read);
    };
  }, []);
  return { element, window: visibleRows(view.top, view.height, rowHeight, total) };
}
