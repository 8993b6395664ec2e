// The page in a real browser: layout, keyboard, replays, live updates, hostile content, and an audit of accessibility.
//
//   node check.mjs URL METRICS [FOLDER]
//
// URL serves the runs of the test `browser`; METRICS is the file that the live run grows by; screenshots go to FOLDER.
import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [url, metrics, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const EPISODE = "/runs/0/episodes/1.train.1.1.2.0";
const HOSTILE = "/runs/1/episodes/1.train.0.0.0.0";
const PAGES = ["/", "/settings", "/runs/0/episodes", EPISODE, "/runs/0/groups/1.train.1.0", "/runs/0/rewards", "/runs/0/health", HOSTILE, "/nothing"];

if (folder) mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

/** Opens a page that fails on dialogs, on refused content, and on requests to other servers. */
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const problems = [];
  page.on("dialog", (dialog) => { problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("console", (line) => {
    const isMissing = line.text().includes("404");
    if (line.type() === "error" && !isMissing) problems.push(`console: ${line.text()}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("data:")) problems.push(`request: ${request.url()}`);
  });
  return { context, page, problems };
}

async function visit(page, path) {
  await page.goto(url + path, { waitUntil: "load" });
}

async function audit(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => (await window.axe.run()).violations);
  const texts = found.map((rule) => `${rule.id}: ${rule.nodes.map((node) => node.html + " " + node.failureSummary).join("; ")}`);
  assert.deepEqual(texts, [], `accessibility of ${name}`);
}

async function everyPage() {
  for (const scheme of ["light", "dark"]) {
    for (const width of [1280, 400]) {
      const { context, page, problems } = await open({ colorScheme: scheme, viewport: { width, height: 900 } });
      for (const path of PAGES) {
        await visit(page, path);
        const name = `${path} at ${width} px, ${scheme}`;
        const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - document.documentElement.clientWidth);
        assert.ok(wide <= 0, `${name} is ${wide} px too wide`);
        await page.evaluate(() => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
        await audit(page, name);
        if (folder) await page.screenshot({ path: `${folder}/${path.replace(/\W+/g, "-")}-${width}-${scheme}.png` });
      }
      assert.deepEqual(problems, []);
      await context.close();
    }
  }
}

async function hostile() {
  const { context, page, problems } = await open();
  for (const path of [HOSTILE, "/runs/1/episodes", "/runs/1/groups/1.train.0.0", "/runs/1/rewards", "/runs/1/health"]) {
    await visit(page, path);
    await page.waitForTimeout(200);
    assert.equal(await page.evaluate(() => window.pwned), undefined, path);
    assert.equal(await page.locator("script").count(), 1, path);
  }
  // The content security policy refuses what the template engine would let through.
  const refused = await page.evaluate(() => new Promise((resolve) => {
    document.addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective), { once: true });
    document.body.insertAdjacentHTML("beforeend", '<img src="x" onerror="window.pwned = 1"><iframe srcdoc="<script>parent.pwned = 1</script>"></iframe>');
  }));
  assert.match(refused, /img-src|script-src|frame-src/);
  await page.waitForTimeout(200);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.deepEqual(problems.filter((problem) => problem.startsWith("dialog")), []);
  await context.close();
}

/** Presses the tab key until an element has the focus. */
async function tabTo(page, selector) {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((wanted) => document.activeElement.matches(wanted), selector)) return;
  }
  assert.fail(`the tab key does not reach ${selector}`);
}

async function keyboard() {
  const { context, page } = await open();
  await visit(page, "/");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await visit(page, "/");
  await tabTo(page, 'a[href="/runs/0/episodes"]');
  await page.keyboard.press("Enter");
  await page.waitForURL("**/runs/0/episodes");
  await tabTo(page, 'select[name="success"]');
  await page.keyboard.type("yes");
  await page.waitForURL("**success=yes**");
  await tabTo(page, 'th a[href*="/episodes/"]');
  await page.keyboard.press("Enter");
  await page.waitForURL("**/episodes/1.train.**");
  await context.close();
}

async function replay() {
  const { context, page, problems } = await open();
  await visit(page, EPISODE);
  await tabTo(page, 'a[href$="/replay"]');
  await page.keyboard.press("Enter");
  await page.waitForURL("**/replay");
  await audit(page, "the question before a replay");
  await tabTo(page, "main button");
  await page.keyboard.press("Enter");
  await page.getByText("Every byte is equal").waitFor();
  await audit(page, "the result of a replay");
  assert.deepEqual(problems, []);
  // A page without an origin of its own sends the same form.
  await page.goto("about:blank");
  await page.setContent(`<form method="post" action="${url}${EPISODE}/replay"><button>Send</button></form>`);
  await page.click("button");
  await page.getByText("the form is not from this page").waitFor();
  await context.close();
}

async function filters() {
  const { context, page, problems } = await open();
  await visit(page, "/runs/0/episodes");
  const rows = () => page.locator("tbody tr").count();
  assert.equal(await rows(), 16);
  await page.selectOption('select[name="success"]', "yes");
  await page.waitForURL("**success=yes**");
  assert.equal(await rows(), 9);
  await page.fill('input[name="text"]', "member 9");
  await page.keyboard.press("Enter");
  await page.waitForURL("**text=member**");
  assert.equal(await rows(), 1);
  await visit(page, EPISODE);
  await page.selectOption('select[name="colour"]', "mask");
  await page.waitForURL("**colour=mask**");
  assert.equal(await page.locator(".token.shade-5").count() >= 2, true);
  assert.deepEqual(problems, []);
  await context.close();
}

async function withoutScript() {
  const { context, page } = await open({ javaScriptEnabled: false });
  await visit(page, "/runs/0/episodes");
  await page.selectOption('select[name="success"]', "no");
  await page.click("form.options button");
  await page.waitForURL("**success=no**");
  assert.equal(await page.locator("tbody tr").count(), 7);
  await visit(page, "/");
  assert.equal(await page.locator("figure.chart polyline").count() > 0, true);
  await context.close();
}

async function zoom() {
  const { context, page } = await open();
  await visit(page, "/?run=0");
  const box = await page.locator("figure.chart svg").first().boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.7, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await page.waitForURL(/from=\d/);
  const from = Number(new URL(page.url()).searchParams.get("from"));
  assert.ok(from > 1 && from < 6, `zoomed from ${from}`);
  await context.close();
}

async function live() {
  const { context, page, problems } = await open();
  await visit(page, "/?run=0");
  await page.getByText("Changes of the runs appear here.").waitFor();
  const label = () => page.locator("figure.chart svg").first().getAttribute("aria-label");
  const before = await label();
  const line = JSON.parse(readFileSync(metrics, "utf8").trim().split("\n").at(-1));
  appendFileSync(metrics, JSON.stringify({ ...line, step: line.step + 1, values: { ...line.values, success: 0.99 } }) + "\n");
  await page.waitForFunction((old) => document.querySelector("figure.chart svg").getAttribute("aria-label") !== old, before);
  assert.match(await label(), /to 0\.99/);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("Paused.").waitFor();
  assert.deepEqual(problems, []);
  await context.close();
}

async function print() {
  const { context, page } = await open();
  await page.emulateMedia({ media: "print" });
  await visit(page, EPISODE);
  assert.equal(await page.locator("header nav").isVisible(), false);
  assert.equal(await page.locator(".turns").isVisible(), true);
  await context.close();
}

let failed = 0;
for (const check of [everyPage, hostile, keyboard, replay, filters, withoutScript, zoom, live, print]) {
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
