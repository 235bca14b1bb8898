// Builds the page: `node build/build.mjs [DIRECTORY]`, by default into the Python package.
//
// The same sources give the same bytes on every machine, so that the built files can be committed
// and `make web-check` can compare them.  The manifest lists a hash of every source, so that
// `make check` can tell without Node that somebody forgot to build.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const target = process.argv[2] ?? join(web, "..", "src", "little_loops", "web", "assets");

/** React's names for what Preact has; the graph of the editor is written for React. */
const alias = {
  react: "preact/compat",
  "react-dom": "preact/compat",
  "react/jsx-runtime": "preact/jsx-runtime",
};

const common = {
  absWorkingDir: web,
  bundle: true,
  minify: true,
  charset: "utf8",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none", // LICENSES.txt has them all
  define: { "process.env.NODE_ENV": '"production"' },
  alias,
  metafile: true,
  write: false,
  logLevel: "warning",
};

/** Every file below a directory, as a path with `/`, sorted by its bytes. */
function filesBelow(directory, skipped = new Set(["node_modules"])) {
  const found = [];
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (skipped.has(entry.name)) continue;
    const path = join(directory, entry.name);
    if (entry.isDirectory()) found.push(...filesBelow(path, skipped));
    else found.push(path);
  }
  return found;
}

function sha256(bytes) {
  return createHash("sha256").update(bytes).digest("hex");
}

function hashes(base, paths) {
  const named = paths.map((path) => [relative(base, path).split(sep).join("/"), path]);
  named.sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(named.map(([name, path]) => [name, sha256(readFileSync(path))]));
}

/** The licences of the packages of which something ended up in the built files. */
function licenses(metafiles) {
  const packages = new Set();
  for (const { outputs } of metafiles) {
    for (const { inputs } of Object.values(outputs)) {
      for (const [input, { bytesInOutput }] of Object.entries(inputs)) {
        const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
        if (found && bytesInOutput > 0) packages.add(found[1]);
      }
    }
  }
  const parts = [...packages].sort().map((name) => {
    const home = join(web, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
    const file = readdirSync(home).find((each) => /^licen[cs]e(\.|$)/i.test(each));
    const text = file ? readFileSync(join(home, file), "utf8").trim() : `License: ${license}`;
    return `${name} ${version}\n\n${text.replaceAll("\r\n", "\n")}\n`;
  });
  return `The page contains parts of these packages.\n\n${parts.join(`\n${"-".repeat(80)}\n\n`)}`;
}

const page = await build({
  ...common,
  entryPoints: { app: "src/main.tsx" },
  outdir: target,
  format: "esm",
  splitting: true,
  chunkNames: "[name]-[hash]",
});

// A report is one file that is opened from the disk, so its script is one, too.
const report = await build({
  ...common,
  entryPoints: { report: "src/report/main.tsx" },
  outdir: target,
  format: "iife",
});

rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
for (const file of [...page.outputFiles, ...report.outputFiles]) {
  writeFileSync(file.path, file.contents);
}
for (const name of ["index.html"]) {
  writeFileSync(join(target, name), readFileSync(join(web, name)));
}
writeFileSync(join(target, "LICENSES.txt"), licenses([page.metafile, report.metafile]));
const manifest = {
  about: "written by `make web`: sha256 of what the page is built from, and of what was built",
  sources: hashes(web, filesBelow(web)),
  built: hashes(target, filesBelow(target)),
};
writeFileSync(join(target, "manifest.json"), `${JSON.stringify(manifest, null, 1)}\n`);
