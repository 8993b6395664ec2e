// A picture of a page of real runs, for the documentation. docs/images/run-page.png is the overview of the demo's run at a
// height of 1000; beside it are its episodes (800), a group and an episode of training (1000, 1100), and its rewards (1000).
//
//   node shot.mjs URL FILE.png [HEIGHT]
import { chromium } from "playwright-core";

const [url, file, height = "900"] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1100, height: Number(height) } });
await page.goto(url, { waitUntil: "load" });
await page.screenshot({ path: file });
await browser.close();
