/*
 * The token: it comes in the fragment of the URL, is kept for this tab, and is sent as a header.
 * A tab that has none asks the other tabs of this page.
 */

const KEY = "ll-loop-token";
const CHANNEL = "ll-loop";
const ANSWER_WITHIN_MS = 300;

type Message = { ask: "token" } | { token: string };

/** Return the token, or null if no tab knows it. */
export async function findToken(): Promise<string | null> {
  const token = fromFragment() ?? sessionStorage.getItem(KEY) ?? (await fromOtherTab());
  if (token !== null) keep(token);
  return token;
}

/** Forget a token that the server did not accept: it belongs to an earlier start of the server. */
export function forgetToken(): void {
  sessionStorage.removeItem(KEY);
}

function fromFragment(): string | null {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (!found) return null;
  // The token must not stay where it is seen, copied or kept in the history.
  history.replaceState(null, "", `${location.pathname}#/runs`);
  return decodeURIComponent(found[1]!);
}

function keep(token: string): void {
  sessionStorage.setItem(KEY, token);
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = ({ data }: MessageEvent<Message>) => {
    const known = sessionStorage.getItem(KEY);
    if ("ask" in data && known !== null) channel.postMessage({ token: known } satisfies Message);
  };
  channel.postMessage({ token } satisfies Message);
}

function fromOtherTab(): Promise<string | null> {
  return new Promise((resolve) => {
    const channel = new BroadcastChannel(CHANNEL);
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      resolve(null);
    }, ANSWER_WITHIN_MS);
    channel.onmessage = ({ data }: MessageEvent<Message>) => {
      if (!("token" in data)) return;
      clearTimeout(timer);
      channel.close();
      resolve(data.token);
      // On a busy computer, or if the URL is opened in another tab only now.
      if (late) {
        sessionStorage.setItem(KEY, data.token);
        location.reload();
      }
    };
    channel.postMessage({ ask: "token" } satisfies Message);
  });
}
