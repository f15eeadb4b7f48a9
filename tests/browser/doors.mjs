// Journeys to doors that must stay shut.
import assert from 'node:assert/strict';

/** Without a login every screen leads to the door, and comes back behind it. */
export async function unknown(visitor, { wheel }) {
  await visitor.page.goto(`${visitor.base}/wheels/${wheel}/dead`);
  assert.match(visitor.path(), /^\/login/);
  await visitor.expecting(401, async () => {
    await visitor.page.locator('input[name="token"]').fill('dwt_nobody');
    await visitor.press(visitor.page.locator('main form button').first());
  });
  assert.match(visitor.path(), /^\/login/);
  await visitor.inert();
  await visitor.accessible();
  await visitor.page.emulateMedia({ colorScheme: 'dark' });
  await visitor.accessible(['color-contrast']);
  await visitor.enter();
  const [cookie] = await visitor.context.cookies();
  return { cookie, path: visitor.path() };
}

/** Whoever may only read finds nothing to press on any screen, and is refused what they send all the same. */
export async function reader(visitor, { wheel, more = [], acts }) {
  await visitor.login();
  await visitor.go(`/wheels/${wheel}`);
  for (const { path, status, posts } of await visitor.parsed([...(await visitor.screens()), ...more])) {
    assert.equal(status, 200, path);
    const acting = posts.filter((action) => !['/logout', '/theme'].includes(action));
    assert.deepEqual(acting, [], `${path}: a reader may press something`);
  }
  visitor.expected.add(403);
  for (const [action, fields] of acts) {
    const status = await visitor.page.evaluate(post, [action, fields]);
    assert.equal(status, 403, action);
  }
}

/** What a page of another origin sends is refused, with the cookie of somebody who is logged in. */
export async function foreign(visitor, { strangers, acts }) {
  await visitor.login();
  visitor.foreign = strangers;
  visitor.expected.add(403);
  const seen = [];
  for (const stranger of strangers) {
    for (const [action, fields] of acts) {
      const url = visitor.base + action;
      await visitor.page.goto(stranger);
      const answered = visitor.page.waitForResponse((response) => response.url() === url && response.request().method() === 'POST');
      const loaded = visitor.page.waitForEvent('load');
      await visitor.page.evaluate(submit, [url, fields]);
      seen.push(['form', stranger, (await answered).status()]);
      await loaded;
      await visitor.page.goto(stranger);
      const fetched = visitor.page.waitForResponse((response) => response.url() === url && response.request().method() === 'POST');
      await visitor.page.evaluate(fetchBlindly, [url, fields]);
      seen.push(['fetch', stranger, (await fetched).status()]);
    }
  }
  for (const one of seen) assert.equal(one[2], 403, one.join(' '));
  return seen;
}

async function post([action, fields]) {
  const answer = await fetch(action, { method: 'POST', body: new URLSearchParams(fields), redirect: 'manual' });
  return answer.status;
}

function submit([url, fields]) {
  const form = document.createElement('form');
  Object.assign(form, { method: 'POST', action: url });
  for (const [name, value] of Object.entries(fields)) {
    const input = document.createElement('input');
    Object.assign(input, { name, value });
    form.append(input);
  }
  document.body.append(form);
  form.submit();
}

async function fetchBlindly([url, fields]) {
  await fetch(url, { method: 'POST', mode: 'no-cors', credentials: 'include', body: new URLSearchParams(fields) }).catch(() => {});
}
