// A person with a browser window of their own, who notes everything that a page must never do.
import assert from 'node:assert/strict';

/** What in a document could do something, besides the page's own script files. */
function lively(document) {
  const found = [];
  for (const script of document.querySelectorAll('script')) {
    const own = script.src && new URL(script.src).origin === location.origin && /^\/assets\//.test(new URL(script.src).pathname);
    if (!own || script.textContent.trim()) found.push(`script ${script.outerHTML.slice(0, 200)}`);
  }
  for (const element of document.querySelectorAll('*')) {
    if (/^(iframe|object|embed|base|applet|foreignobject|animate|set|math|video|audio|marquee)$/i.test(element.tagName)) {
      found.push(`element ${element.outerHTML.slice(0, 200)}`);
    }
    for (const { name, value } of element.attributes) {
      if (/^on/i.test(name) || name === 'style') found.push(`attribute ${name}=${value.slice(0, 100)}`);
      const leads = /^(href|src|srcset|srcdoc|action|formaction|data|poster|background|xlink:href)$/i.test(name);
      if (leads && /^\s*(javascript|vbscript|data):/i.test(value)) found.push(`url ${name}=${value.slice(0, 100)}`);
    }
  }
  return found;
}

export class Visitor {
  /** The source of axe-core. */
  static axe = '';

  static async arrive(browser, { base, token, javaScript = true, width = 1280, height = 900, theme = 'light' }) {
    const context = await browser.newContext({
      javaScriptEnabled: javaScript,
      viewport: { width, height },
      colorScheme: theme,
      reducedMotion: 'reduce',
      locale: 'en-GB',
      timezoneId: 'Asia/Shanghai',
      acceptDownloads: true,
    });
    // A loaded machine must not fail a promise that says nothing about time.
    context.setDefaultTimeout(20_000);
    if (javaScript) {
      await context.addInitScript(() => {
        addEventListener('securitypolicyviolation', (event) => {
          console.error(`CSP: ${event.violatedDirective} refused ${event.blockedURI} ${event.sample}`);
        });
      });
    }
    return new Visitor(context, await context.newPage(), { base, token, javaScript });
  }

  constructor(context, page, { base, token, javaScript }) {
    Object.assign(this, { context, page, base, token, javaScript });
    this.problems = [];
    /** Statuses that the journey has asked for. */
    this.expected = new Set();
    /** Origins that the journey visits besides the page's own. */
    this.foreign = [];
    const note = (what) => this.problems.push(`${new URL(page.url(), base).pathname}: ${what}`);
    page.on('dialog', (dialog) => {
      note(`a dialog: ${dialog.message()}`);
      dialog.dismiss().catch(() => {});
    });
    page.on('pageerror', (error) => note(`an error: ${error.message}`));
    page.on('popup', () => note('a window opened'));
    page.on('console', (message) => {
      const text = message.text();
      const asked = [...this.expected].some((status) => text.includes(`status of ${status}`));
      if (['error', 'warning'].includes(message.type()) && !asked) note(`the console: ${text}`);
    });
    page.on('request', (request) => {
      const url = request.url();
      const known = [this.base, 'about:', ...this.foreign];
      if (!known.some((origin) => url.startsWith(origin))) note(`a request to ${url}`);
      if (request.resourceType() === 'cspviolationreport') note(`a CSP report: ${request.postData()}`);
    });
    page.on('requestfailed', (request) => {
      // A page that is left lets its event stream and what it still reads go.
      const why = request.failure()?.errorText ?? '';
      if (why !== 'net::ERR_ABORTED') note(`${request.method()} ${request.url()} failed: ${why}`);
    });
    page.on('response', (response) => {
      const status = response.status();
      if (status >= 400 && !this.expected.has(status)) note(`${status} for ${response.url()}`);
    });
  }

  /** Goes to a path of the page, which must answer with this status. */
  async go(path, status = 200) {
    const response = await this.expecting(status, () => this.page.goto(this.base + path, { waitUntil: 'load' }));
    assert.equal(response.status(), status, path);
    return response;
  }

  /** Goes to a path that may be refused, but only as what cannot be. */
  async goAnyhow(path) {
    for (const status of [400, 404, 422]) this.expected.add(status);
    await this.page.goto(this.base + path, { waitUntil: 'load' });
    this.expected.clear();
  }

  /** Does something during which an answer of this status is no surprise. */
  async expecting(status, act) {
    this.expected.add(status);
    try {
      return await act();
    } finally {
      this.expected.delete(status);
    }
  }

  path() {
    const url = new URL(this.page.url());
    return url.pathname + url.search;
  }

  text() {
    return this.page.locator('body').innerText();
  }

  /** Is let in with the token, by the cookie alone: the way through the door is a journey of its own. */
  async login() {
    const asked = { form: { token: this.token }, headers: { origin: this.base }, maxRedirects: 0 };
    const answer = await this.context.request.post(`${this.base}/login`, asked);
    assert.equal(answer.status(), 303, await answer.text());
  }

  /** Goes through the door as a person does. */
  async enter() {
    await this.go('/login');
    await this.page.locator('input[name="token"]').fill(this.token);
    await Promise.all([this.page.waitForURL(/\/wheels\//), this.page.locator('main form button').first().click()]);
  }

  /** Presses something that leads to another page, and waits for that. */
  async press(target) {
    await Promise.all([this.page.waitForEvent('load'), target.click()]);
  }

  /** Follows a link of the page's own part by its text. */
  follow(text, within = 'main') {
    return this.press(this.page.locator(within).getByRole('link', { name: text, exact: typeof text === 'string' }).first());
  }

  /** Opens an act by its name, fills its form and sends it; answers what the page then says came of it. */
  async act(name, fields = {}, within = this.page.locator('main')) {
    const act = within.locator('details.act').filter({ has: this.page.locator('summary', { hasText: name }) }).first();
    await act.locator('summary').first().click();
    for (const [field, value] of Object.entries(fields)) await act.locator(`[name="${field}"]`).first().fill(value);
    await this.press(act.locator('button').last());
    return this.said();
  }

  /** Presses Tab so many times, as fast as the browser takes it. */
  async tab(times) {
    await this.page.bringToFront();
    this.keys ??= await this.context.newCDPSession(this.page);
    const key = { key: 'Tab', code: 'Tab', windowsVirtualKeyCode: 9 };
    const presses = [];
    for (let i = 0; i < times; i++) presses.push(this.keys.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', ...key }));
    await Promise.all(presses);
  }

  /** What came of the last act. */
  async said() {
    const flash = this.page.locator('.flash');
    return (await flash.count()) > 0 ? flash.first().innerText() : '';
  }

  /** Every screen that the navigation names, by its path. */
  async screens() {
    const links = await this.page.locator('nav.tabs a[href]').evaluateAll((all) => all.map((a) => a.getAttribute('href')));
    return [...new Set(links.filter((href) => href.startsWith('/wheels/')))];
  }

  /** What axe-core holds against the page, serious or worse. */
  async accessible(rules) {
    await this.page.evaluate(`${Visitor.axe}; 0`);
    const found = await this.page.evaluate(async (only) => {
      const options = { resultTypes: ['violations'] };
      if (only) options.runOnly = { type: 'rule', values: only };
      // What a rule finds is as grave as the rule: those of which nothing could be kept below are not asked.
      const light = window.axe._audit.rules.filter(({ impact }) => impact === 'minor' || impact === 'moderate');
      if (!only) options.rules = Object.fromEntries(light.map(({ id }) => [id, { enabled: false }]));
      const { violations } = await window.axe.run(document, options);
      return violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(({ id, help, nodes }) => `${id} (${help}): ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(' | ')}`);
    }, rules ?? null);
    for (const finding of found) this.problems.push(`${this.path()}: axe: ${finding}`);
  }

  /** Nothing on the page can run but the page's own script files. */
  async inert() {
    const found = await this.page.evaluate(`(${lively})(document)`);
    for (const finding of found) this.problems.push(`${this.path()}: not inert: ${finding}`);
  }

  /**
   * What the browser makes of these paths without showing them: fetched, parsed, and looked at as above. Answers status, heading, text
   * and what can be sent of each.
   */
  async parsed(paths) {
    for (const status of [400, 404, 422]) this.expected.add(status);
    const seen = await this.page.evaluate(`(async (paths) => {
      const seen = [];
      for (const path of paths) {
        const answer = await fetch(path, { headers: { accept: 'text/html' } });
        const parsed = new DOMParser().parseFromString(await answer.text(), 'text/html');
        const posts = Array.from(parsed.querySelectorAll('form[method="post"]'), (form) => form.getAttribute('action'));
        const title = parsed.querySelector('h1')?.textContent;
        seen.push({ path, status: answer.status, lively: (${lively})(parsed), title, posts, text: parsed.body.textContent });
      }
      return seen;
    })(${JSON.stringify(paths)})`);
    // The console's word on the last one may come after its answer.
    await this.page.evaluate(() => 0);
    this.expected.clear();
    for (const one of seen) for (const finding of one.lively) this.problems.push(`${one.path}: not inert: ${finding}`);
    return seen;
  }

  /** The page is no wider than a phone, either. */
  async fitsAPhone() {
    const desk = this.page.viewportSize();
    await this.page.setViewportSize({ width: 360, height: 740 });
    await this.fits();
    await this.page.setViewportSize(desk);
  }

  /** The page is no wider than the window. */
  async fits() {
    const [wide, window] = await this.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    if (wide > window) this.problems.push(`${this.path()}: ${wide} px wide in a window of ${window} px`);
  }
}
