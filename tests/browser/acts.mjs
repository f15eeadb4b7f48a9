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

/** Everything that is done to deadlines: to one on its own page, to those picked in a listing, to all that match; each is said, and shown. */
export async function deeds(visitor, { wheel, stem }) {
  await visitor.enter();
  const to = (path) => visitor.go(`/wheels/${wheel}${path}`);
  const tag = () => visitor.page.locator('h1 .tag').innerText();
  const why = { reason: 'the buyer asked' };
  const done = async (said, what) => assert.match(await said, what ?? /^Done/);

  await to(`/deadline?id=${stem}-1`);
  await done(visitor.act('Reschedule', { to: '2036-03-01 12:00', ...why }), /1 deadline rescheduled/);
  assert.match(await visitor.text(), /2036-03-01 12:00:00/);
  await to(`/deadline?id=${stem}-2`);
  await done(visitor.act('Hold', { for: '30m', ...why }), /1 deadline held/);
  assert.equal(await tag(), 'held');
  await done(visitor.act('Release', why), /1 deadline released/);
  assert.equal(await tag(), 'scheduled');
  await done(visitor.act('Close now', why), /1 deadline to be closed now/);
  assert.equal(await tag(), 'due');
  assert.match(await visitor.text(), /Closed by hand[\s\S]*anna: the buyer asked/);
  await to(`/deadline?id=${stem}-3`);
  await done(visitor.act('Cancel', why), /1 deadline cancelled/);
  assert.equal(await tag(), 'cancelled');

  // Two of a listing, by what stands below it.
  const pick = async (button, ids, fields = {}) => {
    for (const id of ids) await visitor.page.locator(`td.pick input[value="${id}"]`).check();
    for (const [name, value] of Object.entries({ ...why, ...fields })) await visitor.page.locator(`.picked [name="${name}"]`).fill(value);
    await visitor.press(visitor.page.locator('.picked').getByRole('button', { name: button }));
    return visitor.said();
  };
  const two = [`${stem}-4`, `${stem}-5`];
  const row = (id) => visitor.page.locator('main tbody tr').filter({ has: visitor.page.getByRole('link', { name: id, exact: true }) }).innerText();
  await to(`/deadlines?id=${stem}-`);
  await done(pick('Hold picked', two, { for: '20m' }), /2 deadlines held/);
  for (const id of two) assert.match(await row(id), /held/);
  await done(pick('Release picked', two), /2 deadlines released/);
  await done(pick('Reschedule picked', two, { to: '2036-04-01 12:00' }), /2 deadlines rescheduled/);
  for (const id of two) assert.match(await row(id), /2036-04-01 12:00:00/);
  await done(pick('Close picked now', two.slice(0, 1)), /1 deadline to be closed now/);
  await done(pick('Cancel picked', two.slice(1)), /1 deadline cancelled/);
  await done(pick('Hold picked', [], {}), /^Not done.*Nothing was picked/);
  await to('/dead');
  await done(pick('Revive picked', [`${stem}-dead-1`, `${stem}-dead-2`]), /2 deadlines revived/);
  await done(pick('Drop picked', [`${stem}-dead-3`]), /1 deadline dropped/);

  // All that match: counted first, begun, over.
  await to(`/deadlines?id=${stem}-all`);
  await visitor.page.locator('summary', { hasText: 'Act on all that match' }).click();
  await visitor.press(visitor.page.getByRole('button', { name: 'Cancel all …' }));
  assert.match(await visitor.text(), /Cancel: 3 of \d+ scheduled match/);
  await visitor.page.locator('[name="reason"]').fill('the shop closes');
  await visitor.press(visitor.page.getByRole('button', { name: 'Cancel 3' }));
  await done(visitor.said(), /It is begun/);
  await until(visitor, /3 of 3/);
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
