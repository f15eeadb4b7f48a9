// The operator's drill, from the page alone.
import assert from 'node:assert/strict';

/** The hook is away: it is seen, the orders are found, closing is paused. */
export async function outage(visitor, { wheel, dead }) {
  await visitor.login();
  await visitor.go(`/wheels/${wheel}`);
  const banners = visitor.page.locator('#banners');
  assert.match(await banners.innerText(), /held back[\s\S]*503/i);
  assert.match(await banners.innerText(), new RegExp(`${dead} are put aside`));
  // What waits, by the number that tells of it.
  await visitor.follow(/Due now/);
  const due = await visitor.text();
  assert.match(due, /late-\d+/);
  assert.match(due, /attempt|503|due/i);
  // One of them: in plain words why it is not closed.
  await visitor.follow(/^late-\d+/);
  assert.match(await visitor.page.locator('.why').innerText(), /held back|tried again|due/i);
  // What the hook refused, by its reason.
  await visitor.follow('Dead', 'nav.tabs');
  const groups = visitor.page.locator('section').filter({ hasText: 'By reason' });
  assert.match(await groups.innerText(), new RegExp(`${dead}[\\s\\S]*500`));
  await visitor.follow('Hooks', 'nav.tabs');
  assert.match(await visitor.text(), /503/);
  const said = await visitor.act('Pause', { reason: 'the shop is down, INC-7' });
  assert.match(said, /^Done/);
  await visitor.follow('Overview', 'nav.tabs');
  assert.match(await banners.innerText(), /Closing is paused[\s\S]*anna[\s\S]*INC-7/);
  return said;
}

/** The hook is back: closing is resumed, the dead are revived, the backlog drains, the audit tells of it. */
export async function recovery(visitor, { wheel, dead, late }) {
  await visitor.login();
  await visitor.go(`/wheels/${wheel}/hooks`);
  assert.match(await visitor.act('Resume', { reason: 'the shop is back' }), /^Done/);
  await visitor.follow('Dead', 'nav.tabs');
  await visitor.follow(/500/);
  await visitor.press(visitor.page.getByRole('button', { name: /^Revive this group/ }));
  assert.match(await visitor.text(), new RegExp(`${dead} of ${dead} dead match`));
  await visitor.page.locator('[name="reason"]').fill('the shop is back, INC-7');
  const typed = visitor.page.locator('[name="typed"]');
  if ((await typed.count()) > 0) await typed.fill('revive');
  await visitor.press(visitor.page.getByRole('button', { name: `Revive ${dead}` }));
  assert.match(await visitor.said(), /^Done/);
  await visitor.go(`/wheels/${wheel}`);
  const banners = visitor.page.locator('#banners');
  const asOf = await visitor.page.locator('#as-of time').innerText();
  // Without a press of anything: the numbers go on by themselves.
  const figure = (name) => visitor.page.locator(`[data-live="${name}"]`).first();
  await visitor.page.waitForFunction(
    () => ['due', 'leased', 'dead'].every((name) => document.querySelector(`[data-live="${name}"]`)?.textContent === '0'),
    null,
    { timeout: 60_000 },
  );
  assert.equal(await figure('closed').innerText(), (late + dead).toLocaleString('en-US'));
  // So do the parts that are no single numbers: the dead are no banner any more, and the charts are of another moment.
  await visitor.page.waitForFunction((old) => document.querySelector('#as-of time').textContent !== old, asOf, { timeout: 60_000 });
  assert.doesNotMatch(await banners.innerText(), /put aside/);
  await visitor.follow('Audit', 'nav.tabs');
  const rows = await visitor.page.locator('main tbody tr').allInnerTexts();
  const told = (act, ...words) => rows.some((row) => [act, 'anna', 'page', ...words].every((word) => row.includes(word)));
  assert.ok(told('pause', 'INC-7', 'done'), rows.join('\n'));
  assert.ok(told('resume', 'the shop is back', 'done'), rows.join('\n'));
  assert.ok(told('revive', 'INC-7', 'done', String(dead)), rows.join('\n'));
}
