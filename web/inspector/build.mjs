// Builds the page into the folder that the server embeds: node build.mjs [FOLDER]
//
// The same sources give the same bytes on every machine. Names carry no hash, so that Git stores
// differences; index.html asks for app.js?v=HASH instead.
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "../../server/inspector/dist"));

const made = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  outdir: out,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  alias: { "@agentarbor/conversation": join(here, "../conversation/src/index.ts") },
  loader: { ".woff2": "file", ".svg": "file" },
  assetNames: "[name]",
  chunkNames: "part-[name]-[hash]",
  // Linked packages keep the paths that they have here, so that parts are named the same on every machine.
  preserveSymlinks: true,
  metafile: true,
  write: false,
});

// Parts are named after the first of their sources, so that their names stay as sources change.
// app.css has the styles of all of them: what esbuild writes as the styles of one part is never loaded.
const unused = (name) => /^part-.*\.css$/.test(name);
const names = new Map();
for (const [path, { inputs, entryPoint }] of Object.entries(made.metafile.outputs)) {
  const name = basename(path);
  if (!name.startsWith("part-") || unused(name)) continue;
  const source = entryPoint ?? Object.keys(inputs).sort()[0] ?? "empty";
  const stem = `${entryPoint ? "" : "with-"}${basename(source).replace(/\.[a-z]+$/, "")}`;
  let stable = `${stem}.js`;
  for (let n = 2; [...names.values()].includes(stable); n++) stable = `${stem}-${n}.js`;
  names.set(name, stable);
}

const rename = (text) => [...names].reduce((text, [from, to]) => text.replaceAll(from, to), text);
const hash = (data) => createHash("sha256").update(data).digest("hex").slice(0, 12);

// The folder itself stays: a server that shows it has it open.
await mkdir(out, { recursive: true });
for (const name of await readdir(out)) await rm(join(out, name), { recursive: true, force: true });
const files = new Map();
for (const file of made.outputFiles) {
  if (unused(basename(file.path))) continue;
  const name = names.get(basename(file.path)) ?? basename(file.path);
  files.set(name, /\.(js|css)$/.test(name) ? Buffer.from(rename(file.text)) : file.contents);
}
// The hash of app.js is that of the page: whatever else is built is part of its last line.
const others = [...files].filter(([name]) => name !== "app.js").sort(([a], [b]) => (a < b ? -1 : 1));
const all = hash(others.map(([name, data]) => `${name} ${hash(data)}\n`).join(""));
files.set("app.js", Buffer.concat([files.get("app.js"), Buffer.from(`//page ${all}\n`)]));
const hashes = {};
for (const [name, data] of files) {
  hashes[name] = hash(data);
  await writeFile(join(out, name), data);
}

// The browser preloads what app.js imports at once.
const app = Object.entries(made.metafile.outputs).find(([path]) => basename(path) === "app.js")[1];
const preloads = app.imports
  .filter(({ kind, external }) => kind === "import-statement" && !external)
  .map(({ path }) => `    <link rel="modulepreload" href="/inspect/${names.get(basename(path))}" />\n`);
const page = await readFile(join(here, "src/index.html"), "utf8");
await writeFile(
  join(out, "index.html"),
  page.replace("  </head>", `${preloads.join("")}  </head>`).replace(/\bapp\.(?:js|css)\b/g, (name) => `${name}?v=${hashes[name]}`),
);
await copyFile(join(here, "src/mark.svg"), join(out, "mark.svg"));
// Both fonts have the same licence, below a copyright line of their own.
const licences = await Promise.all(
  ["inter", "jetbrains-mono"].map((font) => readFile(join(here, `node_modules/@fontsource-variable/${font}/LICENSE`), "utf8")),
);
const parts = licences.map((text) => text.split(/\n(?=\n)/));
if (parts[0].slice(1).join("\n") !== parts[1].slice(1).join("\n")) throw new Error("The fonts have different licences");
await writeFile(join(out, "fonts-LICENSE.txt"), [...parts.map(([copyright]) => copyright), ...parts[0].slice(1)].join("\n"));
