// Runs the unit tests in test/: each is bundled, because Node 20 reads no TypeScript.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const names = readdirSync(join(web, "test")).filter((name) => /\.test\.tsx?$/.test(name));
const outdir = mkdtempSync(join(web, "node_modules", ".tests-"));
try {
  await build({
    absWorkingDir: web,
    entryPoints: names.map((name) => `test/${name}`),
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    jsx: "automatic",
    jsxImportSource: "preact",
    sourcemap: "inline",
    logLevel: "warning",
  });
  const built = readdirSync(outdir).map((name) => join(outdir, name));
  const ran = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...built], {
    stdio: "inherit",
  });
  process.exitCode = ran.status ?? 1;
} finally {
  rmSync(outdir, { recursive: true, force: true });
}
