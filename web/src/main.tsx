import { render } from "preact";
import "./app.css";
import { App, NoToken } from "./app";
import { serverClient } from "./client";
import { startClock } from "./live";
import { startRouter } from "./router";
import { findToken, forgetToken } from "./session";

const root = document.getElementById("app")!;

async function start(): Promise<void> {
  const token = await findToken();
  startRouter();
  startClock();
  root.textContent = "";
  if (token === null) return render(<NoToken />, root);
  const client = serverClient(token, () => {
    forgetToken();
    render(<NoToken />, root);
  });
  render(<App client={client} />, root);
}

void start();

// The URL of the terminal was opened again in a tab that is open already.
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) location.reload();
});
