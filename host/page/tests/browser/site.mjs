// The documentation site in a real browser, from its folder without a server: links, search, colour schemes, widths.
//
//   node site.mjs FOLDER
//
// FOLDER is the site that `cargo xtask docs` built. Pages below `api` are other programs': they must exist. ONLY=NAME runs one
// of the checks.
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const folder = resolve(process.argv[2]);
const root = pathToFileURL(folder).href;
const start = `${root}/index.html`;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WIDTHS = [400, 1400];
const SCHEMES = ["light", "dark"];
// A term, and a page that must be among its first results.
const TERMS = [
  ["staleness", "reference/metrics.html"],
  ["tool-efficiency", "reference/plugins.html"],
  ["gradient_clip", "reference/run-file.html"],
];
const AUDITED = ["index.html", "how-to/my-run-does-not-learn.html", "reference/plugins.html", "studies/index.html"];

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

/** Opens a page that fails on errors and on requests to anything but the folder. */
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(`${page.url()}: ${error.message}`));
  page.on("request", (request) => {
    if (!/^(file|data|blob):/.test(request.url())) problems.push(`${page.url()} requests ${request.url()}`);
  });
  return { context, page, problems };
}

/** Files of the site that mdBook wrote, relative to its folder. */
function pagesOnDisk(below = "") {
  return readdirSync(join(folder, below), { withFileTypes: true }).flatMap((entry) => {
    const name = below ? `${below}/${entry.name}` : entry.name;
    if (entry.isDirectory()) return name === "api" ? [] : pagesOnDisk(name);
    return name.endsWith(".html") && name !== "toc.html" ? [name] : [];
  });
}

const isApi = (address) => address.startsWith(`${root}/api/`);

/** Follows all links from the start; returns the visited pages. */
async function crawl() {
  const { context, page, problems } = await open();
  const [waiting, seen, ids, links] = [[start], new Set([start]), new Map(), []];
  while (waiting.length > 0) {
    const address = waiting.pop();
    await page.goto(address, { waitUntil: "load" });
    ids.set(address, new Set(await page.evaluate(() => [...document.querySelectorAll("[id]")].map((node) => node.id))));
    const found = await page.evaluate(() => [...document.querySelectorAll("a[href]")].map((link) => link.href));
    for (const link of found.filter((link) => link.startsWith("file:"))) {
      const [to, fragment] = link.split("#");
      assert.ok(to.startsWith(root), `${address}: ${link} leaves the site`);
      assert.ok(existsSync(fileURLToPath(to)), `${address}: ${link} does not exist`);
      if (isApi(to) || !to.endsWith(".html")) continue;
      links.push([address, to, decodeURIComponent(fragment ?? "")]);
      if (!seen.has(to)) waiting.push(to);
      seen.add(to);
    }
  }
  for (const [from, to, fragment] of links) {
    assert.ok(fragment === "" || ids.get(to).has(fragment), `${from}: ${to} has no element ${fragment}`);
  }
  assert.deepEqual(problems, []);
  await context.close();
  return [...seen];
}

async function everyLink() {
  const seen = (await crawl()).map((address) => address.slice(root.length + 1));
  const unlinked = pagesOnDisk().filter((file) => !seen.includes(file));
  assert.deepEqual(unlinked, [], "every page can be reached");
  for (const file of ["repository/index.html", "repository/architecture.html", "repository/changelog.html"]) {
    assert.ok(seen.includes(file), file);
  }
  for (const file of ["rust/gymkhana_sdk/index.html", "python/gymkhana_sdk.html", "js/index.html"]) {
    assert.ok(existsSync(join(folder, "api", file)), file);
  }
}

/** Brightness of the page's background, from 0 to 1. */
function brightness(page) {
  return page.evaluate(() => {
    const colour = getComputedStyle(document.documentElement).backgroundColor;
    const canvas = document.createElement("canvas").getContext("2d");
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue] = canvas.getImageData(0, 0, 1, 1).data;
    return (red + green + blue) / 3 / 255;
  });
}

async function everyWidthAndScheme() {
  for (const colorScheme of SCHEMES) {
    const { context, page, problems } = await open({ colorScheme });
    const wide = [];
    for (const file of pagesOnDisk()) {
      await page.goto(`${root}/${file}`, { waitUntil: "load" });
      const light = await brightness(page);
      assert.ok(colorScheme === "light" ? light > 0.8 : light < 0.3, `${file}: brightness ${light} for ${colorScheme}`);
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        const most = await page.evaluate(() => document.scrollingElement.scrollWidth - document.documentElement.clientWidth);
        if (most > 0) wide.push(`${file}: ${most} px at ${width} px`);
        const broken = await page.evaluate(() => [...document.querySelectorAll("main th")]
          .filter((head) => !/[\s-]/.test(head.textContent.trim()) && head.firstChild)
          .filter((head) => {
            const range = document.createRange();
            range.selectNodeContents(head);
            const boxes = [...range.getClientRects()];
            // A line is about 24 px high.
            return Math.max(...boxes.map((box) => box.bottom)) - Math.min(...boxes.map((box) => box.top)) > 36;
          }).map((head) => head.textContent));
        assert.deepEqual(broken, [], `${file}: words of table heads are broken at ${width} px`);
      }
    }
    assert.deepEqual(wide, [], `pages that are too wide, ${colorScheme}`);
    assert.deepEqual(problems, []);
    await context.close();
  }
}

async function schemeSwitch() {
  const { context, page } = await open({ colorScheme: "dark" });
  await page.goto(start);
  assert.ok((await brightness(page)) < 0.3);
  await page.click("#mdbook-theme-toggle");
  await page.click("#mdbook-theme-light");
  assert.ok((await brightness(page)) > 0.8);
  await page.goto(`${root}/reference/metrics.html`);
  assert.ok((await brightness(page)) > 0.8, "the choice is kept");
  await context.close();
}

async function search() {
  for (const width of WIDTHS) {
    const { context, page, problems } = await open({ viewport: { width, height: 900 } });
    for (const [term, expected] of TERMS) {
      await page.goto(start);
      await page.keyboard.press("s");
      await page.keyboard.type(term);
      const results = page.locator("#mdbook-searchresults a");
      await results.first().waitFor();
      const found = await results.evaluateAll((links) => links.map((link) => link.href));
      assert.ok(found.some((link) => link.startsWith(`${root}/${expected}`)), `${term}: ${found.join("\n")}`);
      await results.first().click();
      await page.locator("main mark").first().waitFor();
    }
    assert.deepEqual(problems, []);
    await context.close();
  }
}

async function audit() {
  for (const colorScheme of SCHEMES) {
    for (const width of WIDTHS) {
      const { context, page } = await open({ colorScheme, viewport: { width, height: 900 } });
      for (const file of AUDITED) {
        await page.goto(`${root}/${file}`, { waitUntil: "load" });
        await page.evaluate(axe);
        // The menu around it is mdBook's. The keyboard reaches code that scrolls: browsers focus it.
        const rules = { "scrollable-region-focusable": { enabled: false } };
        const found = await page.evaluate(async (rules) => (await window.axe.run("main", { rules })).violations, rules);
        const texts = found.map((rule) => `${rule.id}: ${rule.nodes.slice(0, 3).map((node) => node.html + " " + node.failureSummary).join("; ")}`);
        assert.deepEqual(texts, [], `accessibility of ${file} at ${width} px, ${colorScheme}`);
      }
      await context.close();
    }
  }
}

let failed = 0;
const checks = [everyLink, everyWidthAndScheme, schemeSwitch, search, audit];
for (const check of checks.filter((check) => !process.env.ONLY || process.env.ONLY === check.name)) {
  try {
    await check();
    console.log(`ok ${check.name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${check.name}: ${error.stack}`);
  }
}
await browser.close();
process.exit(failed ? 1 : 0);
