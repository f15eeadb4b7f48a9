// The browser of the tests: one Chromium for all of them. Takes journeys as JSON, one a line, from stdin, goes on them side by side, and
// answers each with one line; ends when stdin does, which is when the test binary is gone, however it ended.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { Visitor } from './visitor.mjs';
import * as acts from './acts.mjs';
import * as screens from './screens.mjs';
import * as doors from './doors.mjs';
import * as drill from './drill.mjs';

const modules = createRequire(`${process.env.DUEWHEEL_BROWSER_MODULES}/package.json`);
const { chromium } = modules('playwright-core');

const journeys = { ...acts, ...screens, ...doors, ...drill };
const answer = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const browser = await chromium.launch({
  executablePath: process.env.DUEWHEEL_CHROMIUM,
  headless: true,
  // Nothing that a test does not ask for leaves this machine; a container has neither a GPU nor the rights for a sandbox.
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--force-color-profile=srgb',
    '--hide-scrollbars',
  ],
});
// The same rules in half as much text, which is sent to each page that is looked at.
Visitor.axe = readFileSync(modules.resolve('axe-core/axe.min.js'), 'utf8');
answer({ ready: browser.version() });

async function travel({ number, journey, visitor, ...rest }) {
  const visited = await Visitor.arrive(browser, visitor);
  try {
    const seen = await journeys[journey](visited, rest);
    answer({ number, seen: seen ?? null, problems: visited.problems });
  } catch (error) {
    const place = visited.page.url();
    const text = await visited.text().catch(() => '');
    answer({ number, problems: [...visited.problems, `${error.stack}\nat ${place}:\n${text.slice(0, 2000)}`] });
  } finally {
    await visited.context.close().catch(() => {});
  }
}

const underWay = new Set();
for await (const line of createInterface({ input: process.stdin })) {
  const journey = travel(JSON.parse(line)).finally(() => underWay.delete(journey));
  underWay.add(journey);
}
await browser.close();
