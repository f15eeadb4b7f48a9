-- move: reschedule, hold, release, close by hand and revive are one movement of one deadline: read where it is, put it at another
-- moment, write its header. Each verb says which states it accepts.
-- ARGV 8 verb: reschedule|hold|release|close|revive | 9 id | 10.. of the verb:
--   reschedule: due_at ms or +ms | expected generation us, or ''
--   hold: for ms | most holds | most held ms        release: none
--   close: note (the caller's bytes: actor and reason)        revive: none
-- Returns {'ok', due_at ms, next_at ms, generation us}, or {word, ...}: absent | leased | dead | scheduled | {ended, record} |
--   {generation, stored us} | {hold_cap, holds, held ms} | not_held. O(log slot size).
local refusal, meta = open('generation')
if refusal then return refusal end
local verb, id = ARGV[FIRST], ARGV[FIRST + 1]
local WANTS = { reschedule = 2, hold = 3, release = 0, close = 1, revive = 0 }
if not WANTS[verb] or not id or #id == 0 or #ARGV ~= FIRST + 1 + WANTS[verb] then return redis.error_reply('BADCALL move') end
local a, b, c = ARGV[FIRST + 2], ARGV[FIRST + 3], ARGV[FIRST + 4]
local due, for_ms, most, most_ms
if verb == 'reschedule' then
  if sub(a, 1, 1) == '+' then
    due = whole(sub(a, 2), MAX_MS)
    due = due and due + now
  else
    due = whole(a, MAX_MS)
  end
  if not due or due > MAX_MS or (b ~= '' and not whole(b, 9e15)) then return redis.error_reply('BADCALL due_at') end
elseif verb == 'hold' then
  for_ms, most, most_ms = whole(a, MAX_MS), whole(b, 255), whole(c, 4294967295)
  if not for_ms or not most or not most_ms then return redis.error_reply('BADCALL hold') end
end
touch()
local body = call('HGET', BODIES, id)
if not body then
  local record = call('HGET', ENDED, id)
  if outcome_of(record) then return { 'ended', record } end
  return { 'absent' }
end
if call('ZSCORE', LEASES, id) then return { 'leased' } end
local dead = call('ZSCORE', DEAD, id)
local cause, level, stage, generation, due_at, next_at, holds, held = header_of(body)
if not cause then return redis.error_reply('BADHEADER a stored header cannot be read') end
if dead and verb ~= 'revive' and verb ~= 'close' then return { 'dead' } end
if not dead and verb == 'revive' then return { 'scheduled' } end
if not dead and not in_slot(level, next_at, id) then return redis.error_reply(TRYAGAIN) end
local attempts, losses, flags, note = live_of(call('HGET', LIVE, id))
local failed = attempts > 0 -- only then, or where it is dead, is there a reason

local to = next_at
local fresh = math.max(tonumber(meta[5] or 0) + 1, now_us)
local new_generation = generation
if verb == 'reschedule' then
  if b ~= '' and tonumber(b) ~= generation then return { 'generation', generation } end
  stage, to = coming_stage(body, HEADER_BYTES, 255, due)
  due_at, new_generation, attempts, losses = due, fresh, 0, 0
  -- A close by hand that has not been claimed yet is called off by a new moment: it would not look at the table's own close time.
  if cause == 1 then cause = 0 end
  note = ''
elseif verb == 'hold' then
  -- What counts is how far the close is put off. What is overdue already is not the hold's doing.
  local closes = stage > 0 and due_at or next_at
  local close_to = math.min(math.max(closes, now + for_ms), MAX_MS)
  local added = close_to - math.min(math.max(closes, now), close_to)
  if holds + 1 > most or held + added > most_ms then return { 'hold_cap', holds, held } end
  holds, held = holds + 1, held + added
  -- A reminder waits too, but not beyond the moment of the next stage: then it is that one's turn.
  to = math.min(math.max(next_at, now + for_ms), MAX_MS)
  local turn = stage_at(body, stage, due_at, to)
  if turn < stage then stage, attempts, losses = turn, 0, 0 end
elseif verb == 'release' then
  local own = math.max(moment_of(body, HEADER_BYTES, stage, due_at), now)
  if holds == 0 or next_at <= own then return { 'not_held' } end
  to = own
elseif verb == 'close' then
  to, cause, note, stage = math.min(now, MAX_MS), 1, a, 0
else
  to, new_generation, attempts, losses, flags, stage = now, fresh, 0, 0, '', 0
end
if dead and verb == 'close' then new_generation, attempts, losses = fresh, 0, 0 end

local to_level = level_of(to)
local plan = new_plan()
plan_place(plan, to_level, to, id)
if plan_moved(plan) then return redis.error_reply(TRYAGAIN) end
plan_write(plan)
call('HSET', BODIES, id, header(cause, to_level, stage, new_generation, due_at, to, holds, held) .. sub(body, HEADER_BYTES + 1))
live_write(id, live(attempts, losses, flags, note), true)
if dead then
  call('ZREM', DEAD, id)
  tell({ 'revived', id })
elseif member_of(to_level, to) ~= member_of(level, next_at) then
  leave_slot(level, next_at, id)
end
if dead or (failed and attempts == 0) then call('HDEL', REASONS, id) end
if new_generation == fresh then call('HSET', META, 'generation', format('%.0f', fresh)) end
return { 'ok', due_at, to, new_generation }
