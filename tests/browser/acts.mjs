// Journeys that do something.
import assert from 'node:assert/strict';

/** Pause and resume, drain and resume; each is said, and shown from then on. */
export async function stops(visitor, { wheel }) {
  await visitor.login();
  await visitor.go(`/wheels/${wheel}/hooks`);
  assert.match(await visitor.act('Pause', { reason: 'stock is counted' }), /^Done/);
  assert.match(await visitor.text(), /Closing is paused[\s\S]*stock is counted/);
  assert.match(await visitor.act('Resume', { reason: 'it is counted' }), /^Done/);
  assert.doesNotMatch(await visitor.text(), /Closing is paused/);
  await visitor.follow('Workers', 'nav.tabs');
  assert.match(await visitor.act('Drain', { reason: 'a new version' }), /^Done/);
  await until(visitor, /draining[\s\S]*a new version/);
  const resume = visitor.page.locator('main form').filter({ hasText: 'Resume' }).locator('button');
  await visitor.press(resume);
  assert.match(await visitor.said(), /^Done/);
  await until(visitor, /claims/);
}

/** Looks again until the page says this. */
async function until(visitor, what) {
  for (const began = Date.now(); !what.test(await visitor.text()); ) {
    assert.ok(Date.now() - began < 20_000, `never said ${what}:\n${await visitor.text()}`);
    await visitor.page.waitForTimeout(200);
    await visitor.page.reload({ waitUntil: 'load' });
  }
}

/** Newest first, page by page, by act and by order; the address keeps what was asked for. */
export async function audit(visitor, { wheel }) {
  await visitor.login();
  await visitor.go(`/wheels/${wheel}/audit`);
  const rows = () => visitor.page.locator('main tbody tr').allInnerTexts();
  assert.match((await rows())[0], /pause[\s\S]*stock is counted/);
  const seen = new Set();
  for (let page = 0; page < 5; page++) {
    for (const row of await rows()) seen.add(row);
    const older = visitor.page.getByRole('link', { name: 'Older' });
    if ((await older.count()) === 0) break;
    await visitor.press(older);
  }
  assert.equal(seen.size, 121);
  await visitor.follow('Newest');
  await visitor.page.locator('select[name="act"]').selectOption('pause');
  await visitor.press(visitor.page.locator('form.filters button'));
  assert.match(visitor.path(), /act=pause/);
  assert.equal((await rows()).length, 1);
  await visitor.page.locator('select[name="act"]').selectOption('');
  await visitor.page.locator('.filters input[name="id"]').fill('A-77');
  await visitor.press(visitor.page.locator('form.filters button'));
  assert.match((await rows()).join('\n'), /^[^\n]*cancel[\s\S]*order 77 was paid/);
  assert.equal((await rows()).length, 1);
  await visitor.go(`/wheels/${wheel}/audit?act=nonsense&id=${'x'.repeat(300)}`);
  const complaints = await visitor.page.locator('.complaints').innerText();
  assert.match(complaints, /expected one of/);
  assert.match(complaints, /expected 1 to 200 bytes/);
}

/** One that is over, one that waits and is stopped. */
export async function bulk(visitor, { wheel }) {
  await visitor.login();
  await visitor.go(`/wheels/${wheel}/bulks`);
  const rows = await visitor.page.locator('main tbody tr').allInnerTexts();
  assert.match(rows.join('\n'), /Revive[\s\S]*done[\s\S]*all[\s\S]*30[\s\S]*bert/);
  assert.match(rows.join('\n'), /Cancel[\s\S]*waiting[\s\S]*30[\s\S]*bert/);
  await visitor.follow(/^Cancel/);
  assert.match(await visitor.text(), /waiting[\s\S]*the shop closes/);
  await visitor.press(visitor.page.getByRole('button', { name: 'Stop it' }));
  assert.match(await visitor.said(), /^Done/);
  assert.match(await visitor.text(), /stopped/);
}

/** What a sweep would do, then the sweep. */
export async function sweep(visitor, { wheel, missing }) {
  await visitor.login();
  await visitor.go(`/wheels/${wheel}/runs`);
  await visitor.press(visitor.page.getByRole('button', { name: 'Try a sweep' }));
  assert.match(await visitor.said(), /^Done/);
  const section = (title) => visitor.page.locator('section.card').filter({ has: visitor.page.getByRole('heading', { name: title }) });
  const first = (title) => section(title).locator('tbody tr').first().locator('td.number').allInnerTexts();
  for (const began = Date.now(); (await section('Sweep, tried').locator('tbody tr').count()) === 0; ) {
    assert.ok(Date.now() - began < 20_000, 'nobody tried it');
    await visitor.page.waitForTimeout(200);
    await visitor.page.reload({ waitUntil: 'load' });
  }
  assert.deepEqual((await first('Sweep, tried')).slice(0, 3), [String(missing), '0', String(missing)]);
  const runs = await section(/^Sweep find/).locator('tbody tr').count();
  assert.match(await visitor.act('Run sweep now', { reason: 'they are missing' }), /^Done/);
  for (const began = Date.now(); (await section(/^Sweep find/).locator('tbody tr').count()) === runs; ) {
    assert.ok(Date.now() - began < 20_000, 'nobody ran it');
    await visitor.page.waitForTimeout(200);
    await visitor.page.reload({ waitUntil: 'load' });
  }
  assert.equal((await first(/^Sweep find/))[2], String(missing));
}
