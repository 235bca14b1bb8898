/* The last endings of a loop as a strip: the height says how it ended, the colour repeats it. */

import type { Ending, Tone } from "../api";
import { absolute, duration, plural } from "../format";
import { hrefs } from "../router";

const HEIGHTS: Record<Tone, number> = { good: 20, warn: 13, waiting: 13, running: 9, queued: 9, none: 9, bad: 6 };
const PLACES = 20;

export function Strip({ endings }: { endings: Ending[] }) {
  if (endings.length === 0) return <span class="muted small-text">none has ended yet</span>;
  return (
    <ul class="strip" aria-label="Last endings, oldest first">
      {Array.from({ length: PLACES - endings.length }, (_, at) => (
        <li key={`none-${at}`} aria-hidden="true">
          <span class="mark none" />
        </li>
      ))}
      {endings.map((ending) => (
        <li key={ending.key}>
          <a
            href={hrefs.run(ending.key)}
            title={`${ending.word}, ${absolute(ending.started_ms)}, ${duration(ending.duration_ms)}`}
            aria-label={`${ending.word}, ${plural(ending.iterations, "iteration")}, ${duration(ending.duration_ms)}`}
          >
            <span class={`mark tone-${ending.tone}`} style={{ height: `${HEIGHTS[ending.tone]}px` }} />
          </a>
        </li>
      ))}
    </ul>
  );
}
