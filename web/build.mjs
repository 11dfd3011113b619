// Bundles the scripts of the pages into python/mptcplab: `npm run build`.
//
// The bundles are committed, with the licences of the libraries in them and the checksums of what they were made from.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const packageOf = join(here, "..", "python", "mptcplab");
/** Each bundle by its first file, and where it goes: pages without a server do not load those of the server. */
const bundles = { figures: "report", capture: "report", live: "web", finished: "web", overlay: "web" };

for (const [name, part] of Object.entries(bundles)) {
  await build({
    entryPoints: [join(here, "src", `${name}.ts`)],
    outfile: join(packageOf, part, "scripts", `${name}.js`),
    bundle: true,
    minify: true,
    target: "es2022",
    format: "iife",
    charset: "utf8",
    legalComments: "none",
  });
}

const { packages } = JSON.parse(readFileSync(join(here, "package-lock.json"), "utf8"));
const libraries = Object.entries(packages).filter(([place, { dev }]) => place && !dev);
const licences = libraries.map(([place, { version, license }]) => {
  const file = readdirSync(join(here, place)).find((each) => /^licen[cs]e/i.test(each));
  if (!file) throw new Error(`${place} has no licence file`);
  return `${place.replace("node_modules/", "")} ${version} (${license})\n\n${readFileSync(join(here, place, file), "utf8").trim()}\n`;
});
writeFileSync(join(packageOf, "web", "scripts", "LICENSES"), licences.join("\n"));

/** Checksums of what the bundles are made from, and of the bundles. */
const sources = ["package-lock.json", "tsconfig.json", "build.mjs", ...readdirSync(join(here, "src")).map((file) => `src/${file}`)];
const made = ["report/scripts", "web/scripts"].flatMap((folder) => readdirSync(join(packageOf, folder)).map((file) => `${folder}/${file}`));
const files = [...sources.map((file) => [file, here]), ...made.map((file) => [file, packageOf])].sort();
const sums = files.map(([file, folder]) => `${createHash("sha256").update(readFileSync(join(folder, file))).digest("hex")}  ${file}\n`);
writeFileSync(join(here, "SHA256SUMS"), sums.join(""));
