// Journeys over every screen that the navigation names.
import assert from 'node:assert/strict';

/**
 * Logs in and looks at every screen, and at more paths; answers what was seen of each. By night the colours are asked of as many
 * screens as `nights` says: they are the same everywhere. What is `parsed` is not shown, only taken apart.
 */
export async function walk(visitor, { wheel, more = [], parsed = [], accessible = false, nights = 99, fits = false, any = false }) {
  await visitor.login();
  await visitor.go(`/wheels/${wheel}`);
  const paths = [...(await visitor.screens()), ...more];
  assert.ok(paths.length >= 10, `the navigation names ${paths}`);
  const seen = [];
  for (const path of paths) {
    const began = Date.now();
    if (any) await visitor.goAnyhow(path);
    else await visitor.go(path);
    const ms = Date.now() - began;
    await visitor.inert();
    if (fits) await visitor.fits();
    if (accessible) {
      await looked(visitor, nights-- > 0);
      await visitor.fitsAPhone();
    }
    const title = await visitor.page.locator('h1').innerText();
    seen.push({ path, title, ms, text: await visitor.text() });
  }
  if (parsed.length > 0) seen.push(...(await visitor.parsed(parsed)));
  return seen;
}

/** By day with all rules; by night only what the colours change. */
async function looked(visitor, byNight) {
  await visitor.accessible();
  if (!byNight) return;
  await visitor.page.emulateMedia({ colorScheme: 'dark' });
  await visitor.accessible(['color-contrast']);
  await visitor.page.emulateMedia({ colorScheme: 'light' });
}

/** Every screen while Redis is away: a page that says so, never a blank one or a stack of words. */
export async function away(visitor, { paths, cookie, says }) {
  await visitor.context.addCookies(cookie);
  visitor.expected.add(503);
  const seen = [];
  for (const path of paths) {
    // What this server was told needs no Redis.
    if (path.endsWith('/settings')) {
      await visitor.go(path);
      continue;
    }
    const response = await visitor.page.goto(visitor.base + path, { waitUntil: 'load' });
    assert.equal(response.status(), 503, path);
    await visitor.inert();
    const text = await visitor.text();
    assert.match(text, new RegExp(says, 'i'), path);
    seen.push({ path, text });
  }
  return seen;
}

/** Logs in, and answers the cookie and the screens: for a journey that cannot. */
export async function arrive(visitor, { wheel }) {
  await visitor.login();
  await visitor.go(`/wheels/${wheel}`);
  return { paths: await visitor.screens(), cookie: await visitor.context.cookies() };
}

/** Tab reaches everything that can be pressed or filled, in the order in which it is read, and shows where it is. */
export async function keyboard(visitor, { wheel, more = [] }) {
  await visitor.login();
  await visitor.go(`/wheels/${wheel}`);
  const reached = {};
  for (const path of [...(await visitor.screens()), ...more]) {
    await visitor.go(path);
    const expected = await visitor.page.evaluate(() => {
      const all = [...document.querySelectorAll('a[href], button, input:not([type="hidden"]), select, textarea, summary, [tabindex="0"]')];
      // Radio buttons are one stop a group; what is folded away, off or for the mouse alone is none.
      const stops = all.filter((element) => element.checkVisibility() && element.tabIndex >= 0 && !element.disabled && element.type !== 'radio');
      stops.forEach((element, i) => (element.dataset.stop = i));
      window.reached = [];
      addEventListener('focusin', ({ target }) => {
        const style = getComputedStyle(target);
        const shown = style.outlineStyle !== 'none' || style.boxShadow !== 'none';
        if (target.dataset.stop !== undefined) window.reached.push({ stop: target.dataset.stop, shown, html: target.outerHTML.slice(0, 120) });
      });
      return stops.length;
    });
    // A group of radio buttons and the way out of the page are stops beside those.
    await visitor.tab(expected + 6);
    const order = [];
    for (const at of await visitor.page.evaluate(() => window.reached)) {
      if (order.includes(at.stop)) continue;
      order.push(at.stop);
      if (!at.shown) visitor.problems.push(`${path}: nobody sees that ${at.html} has the focus`);
    }
    assert.equal(order.length, expected, `${path}: Tab reaches ${order.length} of ${expected}`);
    assert.deepEqual(order.map(Number), [...order.keys()], `${path}: Tab jumps`);
    reached[path] = order.length;
  }
  return reached;
}

/** The keys of the page: to the search and out of it, to screens, along rows, to pick, to turn the page, to the help, and off. */
export async function keys(visitor, { wheel, accessible }) {
  const { page } = visitor;
  const focused = () => page.evaluate(() => document.activeElement?.id || document.activeElement?.textContent.trim());
  const to = (key, path) => Promise.all([page.waitForURL((url) => path.test(url.pathname + url.search)), page.keyboard.press(key)]);
  await visitor.login();
  await visitor.go(`/wheels/${wheel}`);
  await to('3', /\/deadlines$/);
  await page.waitForLoadState('load');
  await page.keyboard.press('/');
  assert.equal(await focused(), 'find');
  // What is typed is typed.
  await page.keyboard.type('j3?');
  assert.equal(await page.locator('#find').inputValue(), 'j3?');
  await page.keyboard.press('Escape');
  const ids = await page.locator('td.id a').allInnerTexts();
  assert.ok(ids.length > 10, String(ids));
  for (const [key, n] of [['j', 0], ['j', 1], ['j', 2], ['k', 1]]) {
    await page.keyboard.press(key);
    assert.equal(await focused(), ids[n], `${key} to row ${n}`);
  }
  await page.keyboard.press('x');
  assert.deepEqual(await page.locator('td.pick input:checked').evaluateAll((all) => all.map((one) => one.value)), [ids[1]]);
  await page.keyboard.press('?');
  assert.ok(await page.locator('#keys dl').isVisible());
  if (accessible) await visitor.accessible();
  await page.keyboard.press('?');
  assert.ok(!(await page.locator('#keys dl').isVisible()));
  await visitor.go(`/wheels/${wheel}/deadlines?limit=20`);
  await to('n', /limit=20&cursor=/);
  await page.waitForLoadState('load');
  await to('f', /deadlines\?limit=20$/);
  await page.waitForLoadState('load');
  await page.keyboard.press('?');
  await page.getByRole('button', { name: 'Turn keys off' }).click();
  await visitor.go(`/wheels/${wheel}`);
  await page.keyboard.press('3');
  await page.keyboard.press('/');
  assert.notEqual(await focused(), 'find');
  assert.match(visitor.path(), new RegExp(`/wheels/${wheel}$`));
}

/** Looks at these paths, and answers the text of each. */
export async function read(visitor, { paths }) {
  await visitor.login();
  const texts = [];
  for (const path of paths) {
    await visitor.go(path);
    await visitor.inert();
    texts.push(await visitor.text());
  }
  return texts;
}

/** Takes a picture of each screen, by day, by night, and by day on a phone. */
export async function pictures(visitor, { wheel, folder, more, stem = '', only }) {
  const take = (name, path) => picture(visitor, `${folder}/${stem}${name}`, path);
  if (!only) await take('login', '/login');
  await visitor.login();
  await visitor.go(`/wheels/${wheel}`);
  const named = (await visitor.screens()).map((path) => [path.split('/')[3] ?? 'overview', path]);
  for (const [name, path] of [...named, ...Object.entries(more)]) if (!only || only.includes(name)) await take(name, path);
}

async function picture(visitor, file, path) {
  const shoot = (as) => visitor.page.screenshot({ path: `${file}-${as}.png`, fullPage: true });
  for (const theme of ['light', 'dark']) {
    await visitor.page.emulateMedia({ colorScheme: theme });
    await visitor.goAnyhow(path);
    await shoot(theme);
  }
  const { width, height } = visitor.page.viewportSize();
  await visitor.page.setViewportSize({ width: 360, height: 740 });
  await visitor.page.emulateMedia({ colorScheme: 'light' });
  await visitor.goAnyhow(path);
  await shoot('phone');
  await visitor.page.setViewportSize({ width, height });
}
